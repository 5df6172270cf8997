# SPDX-License-Identifier: MIT
"""In gdb, in look() of subject.cpp: evaluates each expression of the file that $natvis names."""
import re
import xml.etree.ElementTree as tree

import gdb

SUBJECTS = {"hipvmm::growable_device_vector<*>": "numbers", "hipvmm::region": "region",
            "hipvmm::mr::vmm_pool_resource": "pool"}


def evaluate(subject, expression):
    """None, or the reason why there is no value."""
    try:
        gdb.parse_and_eval(re.sub(r"\b([a-z]\w*_)\b", rf"{subject}.\1",
                                  expression.replace("$T1", "int"), count=1)).fetch_lazy()
        return None
    except gdb.error as error:
        return str(error)


def is_known(name):
    """Whether the library has debug information of this type."""
    try:
        return bool(gdb.lookup_type(name).fields())
    except gdb.error:
        return False


def check(path):
    count = 0
    for each in tree.parse(path).getroot():
        subject = SUBJECTS[each.get("Name")]
        shown = [one.text for one in each.iter() if one.tag.endswith("Item")]
        shown += [text for one in each if one.tag.endswith("DisplayString")
                  for text in re.findall(r"\{(.*?)\}", one.text)]
        for expression in shown:
            behind = re.match(r"\(\*\(([\w:]+)\*\*\)&", expression)
            if behind and not is_known(behind[1]):
                continue
            why = evaluate(subject, expression)
            if why:
                print(f"natvis: {expression}: {why}")
            count += 1
    print(f"natvis: {count} expressions")


check(gdb.convenience_variable("natvis").string())
