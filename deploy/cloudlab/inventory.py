#!/usr/bin/env python3
"""Makes deploy/ansible's inventory from the manifest of an experiment of profile.py: inventory.py MANIFEST.xml > inventory

A host's groups follow from its name: control-N is coordinator and zookeeper, the others what they are called. Exit code 2: the manifest
is not one of that profile.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

GROUPS = {"control": ["zookeeper", "coordinator"], "ltc": ["ltc"], "stoc": ["stoc"], "client": ["client"]}


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def local(element):
    return element.tag.rpartition("}")[2]


def find(element, name):
    return [e for e in element.iter() if local(e) == name]


def hosts_of(manifest):
    """name -> variables, in the manifest's order."""
    hosts = {}
    for node in find(manifest, "node"):
        name = node.get("client_id", "")
        if not re.fullmatch(r"(control|ltc|stoc|client)-\d+", name):
            fail(f"host {name!r} is not one of deploy/cloudlab/profile.py")
        login = next(iter(find(node, "login")), None)
        address = next(iter(find(node, "ip")), None)
        if login is None or address is None:
            fail(f"host {name} has no login or no address yet: is the experiment ready?")
        variables = {"ansible_host": login.get("hostname"), "ansible_port": login.get("port", "22"), "ansible_user": login.get("username"),
                     "nova_address": address.get("address")}
        setup = " ".join(e.get("command", "") for e in find(node, "execute"))
        infiniband = re.search(r"setup\.sh (\d+\.\d+\.\d+\.\d+)", setup)
        if infiniband:
            variables["nova_address"] = infiniband.group(1)
        if find(node, "blockstore"):
            variables["nova_stoc_data"] = "/mnt/nova"
            variables["nova_stoc_data_is_mount"] = "true"
        hosts[name] = variables
    return hosts


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: inventory.py MANIFEST.xml")
    try:
        hosts = hosts_of(ElementTree.parse(sys.argv[1]).getroot())
    except (OSError, ElementTree.ParseError) as e:
        fail(f"{sys.argv[1]}: {e}")
    if not hosts:
        fail(f"{sys.argv[1]} names no hosts")
    print("[all:vars]\nnova_fabric=verbs\n\n[all]")
    for name, variables in hosts.items():
        print(name, " ".join(f"{k}={v}" for k, v in variables.items() if v))
    for group in ("zookeeper", "coordinator", "stoc", "ltc", "client"):
        print(f"\n[{group}]")
        for name in hosts:
            role, _, number = name.partition("-")
            if group in GROUPS[role]:
                print(f"{name} zookeeper_id={number}" if group == "zookeeper" else name)


if __name__ == "__main__":
    main()
