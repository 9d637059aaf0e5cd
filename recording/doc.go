// Package recording keeps a record of each request that a limiter has seen, in 32 bytes: when it
// came, how long it waited and worked, how much was in flight, and how it ended. A Recorder collects
// the records of a running service in bounded memory. A Writer and a Reader write and read the file.
//
//	rec, err := recording.New(recording.Config{})
//	...
//	lim, err := inflight.New(inflight.Config{Recorder: rec})
//	...
//	w := recording.NewWriter(file, rec.Epoch())
//	for range time.Tick(100 * time.Millisecond) {
//		err := rec.Drain(w)
//		...
//	}
//
// Drain takes each record once. A Tail reads what is in memory without taking it.
//
// "weirlab advise FILE" finds the capacity of the service in it.
//
// A record has no payload, no key, no address and no path. Classes and tenants are numbers. The file
// has the names of the classes, and no names of tenants.
//
// # File format
//
// All numbers are little-endian. A file is a header of 24 bytes, and then blocks.
//
//	header  0   8  "weirrec" and the version of the format, 1
//	        8   8  epoch: nanoseconds since 1970 in UTC, signed
//	        16  4  size of a record in bytes, 32
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
//	'R'  records, 32 bytes each
//	'N'  the name of a class: its number in 2 bytes, then the name in UTF-8
//	'L'  8 bytes: how many requests of the recording have no record; the last such block counts
//
// Records are in no particular order. A record is
//
//	0   8  Intended: nanoseconds since the epoch, signed
//	8   4  Start − Intended
//	12  4  Wait
//	16  4  End − Start
//	20  4  Deadline − Intended; 0 if there is no deadline
//	24  2  Inflight; 65535 also stands for more
//	26  2  Class; 0 is a request without a class
//	28  2  Tenant; 0 is a request without a tenant
//	30  1  Outcome
//	31  1  Origin; 0 is a request without one
//
// The four times are in units of 128 ns, rounded down. The highest value, 9 minutes and 9.7 seconds, also
// stands for longer times.
package recording
