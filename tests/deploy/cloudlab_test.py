#!/usr/bin/env python3
"""deploy/cloudlab: what profile.py asks for, by a stand-in for the few parts of geni-lib that it uses, and the inventory of its manifest."""
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree as ElementTree

CLOUDLAB = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "cloudlab"


class Thing:
    """A part of a request: what was set on it, and what was added to it."""

    def __init__(self, name=""):
        self.name, self.interfaces, self.services, self.blockstores, self.addresses = name, [], [], [], []

    def addInterface(self, what):
        if isinstance(what, str):
            what = Thing(what)
        self.interfaces.append(what)
        return what

    def addAddress(self, address):
        self.addresses.append(address)

    def addService(self, service):
        self.services.append(service)

    def Blockstore(self, name, mount):
        self.blockstores.append(Thing(name))
        self.blockstores[-1].mount = mount
        return self.blockstores[-1]


class Request:
    def __init__(self):
        self.nodes, self.lans = [], []

    def RawPC(self, name):
        self.nodes.append(Thing(name))
        return self.nodes[-1]

    def LAN(self, name):
        self.lans.append(Thing(name))
        return self.lans[-1]


class Refused(Exception):
    pass


class Context:
    def __init__(self, values):
        self.values, self.defined, self.errors, self.request, self.printed = values, {}, [], None, False

    def defineParameter(self, name, text, kind, default, legalValues=None, longDescription=None):
        value = self.values.get(name, default)
        assert legalValues is None or value in [v for v, _ in legalValues], value
        assert isinstance(value, int if kind == "integer" else str), name
        self.defined[name] = value

    def bindParameters(self):
        assert set(self.values) <= set(self.defined), "a parameter of the test is not one of the profile"
        return types.SimpleNamespace(**self.defined)

    def reportError(self, error):
        self.errors.append(error)

    def verifyParameters(self):
        if self.errors:
            raise Refused(self.errors)

    def makeRequestRSpec(self):
        self.request = Request()
        return self.request

    def printRequestRSpec(self):
        self.printed = True


def run_profile(**values):
    context = Context(values)
    modules = {name: types.ModuleType(name) for name in ("geni", "geni.portal", "geni.rspec", "geni.rspec.pg")}
    portal, pg = modules["geni.portal"], modules["geni.rspec.pg"]
    portal.context = context
    portal.ParameterType = types.SimpleNamespace(STRING="string", INTEGER="integer")
    portal.ParameterError = lambda text, parameters: (text, parameters)
    pg.IPv4Address = lambda address, netmask: (address, netmask)
    pg.Execute = lambda shell, command: (shell, command)
    modules["geni"].portal, modules["geni"].rspec, modules["geni.rspec"].pg = portal, modules["geni.rspec"], pg
    sys.modules.update(modules)
    source = (CLOUDLAB / "profile.py").read_text()
    exec(compile(source, "profile.py", "exec"), {"__name__": "profile"})
    assert context.printed
    return context.request


def manifest_of(request):
    """What CloudLab makes of the request, as far as inventory.py reads it."""
    root = ElementTree.Element("{http://www.geni.net/resources/rspec/3}rspec", type="manifest")
    for i, node in enumerate(request.nodes):
        e = ElementTree.SubElement(root, "{http://www.geni.net/resources/rspec/3}node", client_id=node.name)
        services = ElementTree.SubElement(e, "{http://www.geni.net/resources/rspec/3}services")
        ElementTree.SubElement(services, "{http://www.geni.net/resources/rspec/3}login", hostname=f"pc{i}.example.net", port="22", username="ada")
        ElementTree.SubElement(services, "{http://www.geni.net/resources/rspec/3}execute", command=node.services[0][1])
        interface = ElementTree.SubElement(e, "{http://www.geni.net/resources/rspec/3}interface")
        ElementTree.SubElement(interface, "{http://www.geni.net/resources/rspec/3}ip", address=node.interfaces[0].addresses[0][0])
        for disk in node.blockstores:
            ElementTree.SubElement(e, "{http://www.protogeni.net/resources/rspec/ext/emulab/1}blockstore", name=disk.name, mountpoint=disk.mount)
    return ElementTree.tostring(root)


def inventory_of(manifest):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        (path / "manifest.xml").write_bytes(manifest)
        made = subprocess.run([CLOUDLAB / "inventory.py", path / "manifest.xml"], capture_output=True, text=True)
        if made.returncode != 0:
            return made.returncode, made.stderr
        (path / "inventory").write_text(made.stdout)
        listed = subprocess.run(["ansible-inventory", "-i", path / "inventory", "--list"], capture_output=True, text=True, check=True,
                                env={"HOME": directory, "PATH": "/usr/bin:/bin"})
        return 0, json.loads(listed.stdout)


class ProfileTest(unittest.TestCase):
    def test_a_roce_cluster_has_its_hosts_on_one_lan_of_the_nics_speed(self):
        request = run_profile(nodeType="r650", controls=3, ltcs=2, stocs=4, clients=1)
        self.assertEqual([n.name for n in request.nodes], ["control-1", "control-2", "control-3", "ltc-1", "ltc-2", "stoc-1", "stoc-2", "stoc-3",
                                                           "stoc-4", "client-1"])
        self.assertEqual({n.hardware_type for n in request.nodes}, {"r650"})
        self.assertEqual(len(request.lans), 1)
        self.assertEqual(request.lans[0].bandwidth, 100 * 1000 * 1000)
        self.assertEqual([i.addresses[0][0] for i in request.lans[0].interfaces], [f"10.10.1.{i}" for i in range(1, 11)])
        self.assertEqual({n.name for n in request.nodes if n.blockstores}, {"stoc-1", "stoc-2", "stoc-3", "stoc-4"})
        self.assertEqual({n.services[0][1] for n in request.nodes}, {"sudo /local/repository/deploy/cloudlab/setup.sh"})

    def test_infiniband_hosts_are_given_an_address_on_it(self):
        for kind in ("r320", "c6220"):
            request = run_profile(nodeType=kind, diskGb=0)
            self.assertFalse(hasattr(request.lans[0], "bandwidth"))
            self.assertEqual([n.services[0][1].split()[-1] for n in request.nodes], [f"10.10.2.{i}" for i in range(1, len(request.nodes) + 1)])
            self.assertFalse(any(n.blockstores for n in request.nodes))

    def test_numbers_that_make_no_cluster_are_refused(self):
        for bad in ({"controls": 2}, {"stocs": 0}, {"clients": 300}, {"diskGb": -1}):
            with self.assertRaises(Refused, msg=str(bad)):
                run_profile(**bad)

    def test_its_start_up_service_is_there(self):
        command = run_profile().nodes[0].services[0][1].split()[1]
        script = CLOUDLAB.parents[1] / pathlib.Path(command).relative_to("/local/repository")
        self.assertTrue(script.stat().st_mode & 0o100, script)


class InventoryTest(unittest.TestCase):
    def test_a_manifest_becomes_groups_and_addresses(self):
        code, inventory = inventory_of(manifest_of(run_profile(nodeType="c6525-100g", controls=3)))
        self.assertEqual(code, 0, inventory)
        self.assertEqual(inventory["coordinator"]["hosts"], ["control-1", "control-2", "control-3"])
        self.assertEqual(inventory["zookeeper"]["hosts"], ["control-1", "control-2", "control-3"])
        self.assertEqual(inventory["stoc"]["hosts"], ["stoc-1", "stoc-2", "stoc-3"])
        variables = inventory["_meta"]["hostvars"]
        self.assertEqual([variables[f"control-{i}"]["zookeeper_id"] for i in (1, 2, 3)], [1, 2, 3])
        self.assertEqual(variables["stoc-1"]["nova_address"], "10.10.1.6")
        self.assertEqual(variables["stoc-1"]["nova_stoc_data"], "/mnt/nova")
        self.assertEqual(variables["client-1"]["ansible_host"], "pc8.example.net")
        self.assertEqual(variables["client-1"]["nova_fabric"], "verbs")

    def test_infiniband_addresses_are_those_of_the_start_up_service(self):
        _, inventory = inventory_of(manifest_of(run_profile(nodeType="r320")))
        self.assertEqual(inventory["_meta"]["hostvars"]["ltc-1"]["nova_address"], "10.10.2.2")

    def test_what_is_no_manifest_of_the_profile_is_refused_in_one_line(self):
        for bad in (b"", b"<rspec/>", b"<rspec><node client_id='node0'/></rspec>", b"<rspec><node client_id='ltc-1'/></rspec>"):
            code, error = inventory_of(bad)
            self.assertEqual(code, 2, bad)
            self.assertRegex(error, r"\Aerror: .*\n\Z")


if __name__ == "__main__":
    unittest.main()
