// Package decisionlog records the decisions of weir serve in files, so that other rules can be tried on the same requests: see
// package rulecheck. A Recorder collects decisions in bounded memory, Record has a decider.Decider add its own, and a Directory
// has the files.
//
// A file has no key. It has a key in parts: what is between separators, such as "user" and "42" of user:42, is a segment. Separators,
// and segments without a letter and a digit, are in clear. Of each other segment the file has a fingerprint, 8 bytes of
// HMAC-SHA256 of the segment with a salt, and which kinds of characters it consists of. So a text of a new rule can be
// fingerprinted in the same way, and compared. The salt is in the file, or in a separate one.
//
// # File format
//
// All numbers are little-endian. A file is a header of 24 bytes, and then blocks.
//
//	header  0   8  "weirdec" and the version of the format, 1
//	        8   8  epoch: nanoseconds since 1970 in UTC, signed
//	        16  4  size of a decision in bytes, 32
//	        20  4  CRC-32C of the bytes 0 to 19
//
//	block   0   1  kind
//	        1   3  zero
//	        4   4  length of the payload in bytes, at most 1 MiB
//	        8   4  CRC-32C of the bytes 0 to 7, then of the payload
//	        12     payload
//
// A Reader skips the blocks of kinds that it does not know. It knows these:
//
//	'I'  an Info, as JSON; the first block
//	'K'  keys, each: its number in 4 bytes, the length of its parts in 2 bytes, its parts
//	'R'  a rule: its number in 2 bytes, its name
//	'T'  terms of requests: their number in 2 bytes, Terms as JSON
//	'C'  Counters, as JSON; the last such block counts
//	'D'  decisions, 32 bytes each
//
// A part of a key is the byte 0, the length of a text in one byte, and the text; or the byte 0x80 + match.Kinds, and the
// fingerprint in 8 bytes. Decisions are in no particular order. A key, a rule and terms come before the first decision with
// their number. A key that is not among the 131,072 before comes again, with another number. A decision is
//
//	0   8  At: nanoseconds since the epoch, signed
//	8   4  number of the key; 0 if it is not recorded
//	12  4  N; of a settlement, the true cost
//	16  4  MaxWait, in units of 128 ns, rounded up; the highest value also stands for more. Of a settlement, the age of the
//	       grant in units of 1,024 ns; the highest value: not known
//	20  4  Group; of a settlement, the cost that was taken
//	24  2  number of the rule, or 0
//	26  2  number of the terms, or 0; 65535: they are not recorded
//	28  1  0 if the request was allowed, or 1 + the weir.Reason
//	29  1  Flags
//	30  2  zero
package decisionlog
