package grant

import (
	"strings"
	"testing"
)

// FuzzID: an id that is read is written the same, but for capitals.
func FuzzID(f *testing.F) {
	f.Add("0123abcd-4567-8123-8fff-0123456789ab", uint64(1), uint64(2), 1)
	f.Add("0123abcd-4567-8123-8fff-0123456789ab-17", uint64(1<<60-1), uint64(1<<64-4), 17)
	f.Add("0123ABCD-4567-8123-8fff-0123456789ab", uint64(0), uint64(0), 1<<40)
	f.Fuzz(func(t *testing.T, id string, stamp, seal uint64, n int) {
		if stamp, seal, n, ok := parseID(id); ok {
			if got := string(appendID(nil, stamp, seal, n)); got != strings.ToLower(id) {
				t.Errorf("%q is read as that of %q", id, got)
			}
		}
		stamp, seal, n = stamp&(1<<60-1), seal&(1<<sealBits-1), max(n, 1)
		gotStamp, gotSeal, gotN, ok := parseID(string(appendID(nil, stamp, seal, n)))
		if !ok || gotStamp != stamp || gotSeal != seal || gotN != n {
			t.Errorf("%x %x %d comes back as %x %x %d, %v", stamp, seal, n, gotStamp, gotSeal, gotN, ok)
		}
	})
}
