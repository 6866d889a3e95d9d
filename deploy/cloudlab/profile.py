"""A cluster for Nova on RDMA hardware: hosts for coordinators with ZooKeeper, LTCs, StoCs and clients, on one network, with the packages
of a Nova node installed.

Instructions:
Wait until the start-up services have finished. On the machine that holds this repository: save the experiment's manifest (tab
Manifest), `deploy/cloudlab/inventory.py manifest.xml > inventory`, and go on with docs/deploy.md.
"""
import geni.portal as portal
import geni.rspec.pg as pg


class Hardware(object):
    """A node type: its NIC for the experiment, as CloudLab's and Apt's manuals list it."""

    def __init__(self, nic, gbit, infiniband):
        self.nic, self.gbit, self.infiniband = nic, gbit, infiniband


# On Apt the ConnectX-3 ports are InfiniBand or Ethernet as that cluster has them set up; the others are Ethernet: RoCE v2.
HARDWARE = {
    "r320": Hardware("ConnectX-3 FDR, InfiniBand 56 Gb/s (Apt; 8 cores, 16 GB)", 56, True),
    "c6220": Hardware("ConnectX-3 FDR, InfiniBand 56 Gb/s (Apt; 16 cores, 64 GB)", 56, True),
    "r650": Hardware("ConnectX-6, 100 Gb/s Ethernet (Clemson; 72 cores, 256 GB, NVMe)", 100, False),
    "c6525-25g": Hardware("ConnectX-5, 25 Gb/s Ethernet (Utah; 16 cores, 128 GB)", 25, False),
    "c6525-100g": Hardware("ConnectX-5 Ex, 100 Gb/s Ethernet (Utah; 24 cores, 128 GB, NVMe)", 100, False),
}
# Role of a host (the first part of its name), parameter, default, at least, what it is.
ROLES = [
    ("control", "controls", 1, 1, "Hosts of a coordinator and a ZooKeeper server each: 1, or 3 to outlive one of them"),
    ("ltc", "ltcs", 2, 1, "Hosts of an LTC"),
    ("stoc", "stocs", 3, 1, "Hosts of a StoC; three for three copies of a log"),
    ("client", "clients", 1, 1, "Hosts that load comes from"),
]
NETWORK = "10.10.1.%d"      # of the Ethernet LAN
INFINIBAND = "10.10.2.%d"   # IP over InfiniBand, which the start-up service sets up: connections are made by address
MOST = 200


def define_parameters(context):
    types = [(name, "%s: %s" % (name, HARDWARE[name].nic)) for name in sorted(HARDWARE)]
    context.defineParameter("nodeType", "Node type", portal.ParameterType.STRING, "r650", types)
    for _, parameter, default, _, text in ROLES:
        context.defineParameter(parameter, text, portal.ParameterType.INTEGER, default)
    context.defineParameter("diskGb", "Size of a StoC's file system in GB, on a disk of its own, at /mnt/nova; 0: the system disk",
                            portal.ParameterType.INTEGER, 100)
    context.defineParameter("image", "Disk image", portal.ParameterType.STRING,
                            "urn:publicid:IDN+emulab.net+image+emulab-ops//DEBIAN12-64-STD",
                            longDescription="deploy/packages.sh names Debian 12's packages; the programs are to be built on the same.")


def check_parameters(context, params):
    for _, parameter, _, least, _ in ROLES:
        if getattr(params, parameter) < least:
            context.reportError(portal.ParameterError("at least %d" % least, [parameter]))
    if sum(getattr(params, parameter) for _, parameter, _, _, _ in ROLES) > MOST:
        context.reportError(portal.ParameterError("at most %d hosts" % MOST, [parameter for _, parameter, _, _, _ in ROLES]))
    if params.controls % 2 == 0:
        context.reportError(portal.ParameterError("a ZooKeeper ensemble has an odd number of servers", ["controls"]))
    if params.diskGb < 0:
        context.reportError(portal.ParameterError("not negative", ["diskGb"]))
    context.verifyParameters()


def add_host(request, lan, name, number, params):
    hardware = HARDWARE[params.nodeType]
    host = request.RawPC(name)
    host.hardware_type = params.nodeType
    host.disk_image = params.image
    interface = host.addInterface("fabric")
    interface.addAddress(pg.IPv4Address(NETWORK % number, "255.255.255.0"))
    lan.addInterface(interface)
    if name.startswith("stoc-") and params.diskGb > 0:
        disk = host.Blockstore("disk-" + name, "/mnt/nova")
        disk.size = "%dGB" % params.diskGb
        disk.placement = "NONSYSVOL"
    infiniband = " " + INFINIBAND % number if hardware.infiniband else ""
    host.addService(pg.Execute(shell="bash", command="sudo /local/repository/deploy/cloudlab/setup.sh" + infiniband))


def main():
    context = portal.context
    define_parameters(context)
    params = context.bindParameters()
    check_parameters(context, params)
    request = context.makeRequestRSpec()
    lan = request.LAN("fabric")
    if not HARDWARE[params.nodeType].infiniband:
        lan.bandwidth = HARDWARE[params.nodeType].gbit * 1000 * 1000  # kb/s: without it a slower port may be taken
    number = 0
    for role, parameter, _, _, _ in ROLES:
        for i in range(1, getattr(params, parameter) + 1):
            number += 1
            add_host(request, lan, "%s-%d" % (role, i), number, params)
    context.printRequestRSpec()


main()
