"""Results that can be given away: names of people, hosts, paths and boards become pseudonyms made with a secret key.

What holds for every result made with ``--pseudonymise``, whatever the inputs are:

- A column of names (`schemas/` says which: ``holds``) has pseudonyms, ``host-9c1d64b07e52``. Equal names have equal
  pseudonyms in all tables and in all results made with the same key; without the key nobody can make them again.
- Ids are made of names, so that one could try names until an id fits. They are made anew with the key.
- Free text shows words of ``vocabulary.txt``, short numbers, times and PCI addresses. Every other word is replaced: a
  name that no column has told about cannot be told from a word, so nothing is shown that is not known to be harmless.
- Lists of names and rows are ordered by pseudonym, because their old order would tell about the names.

What is not hidden: times, numbers, sizes, names of formats, zones, job ids that are numbers.
"""
