"""Doubles of the APIs in policy/packs, a module for each pack of the same name: the API's own keys,
lookups and undos, and CASES, one for each write of the pack. test_packs.py runs all of them."""
