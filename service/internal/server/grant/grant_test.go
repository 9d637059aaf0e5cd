package grant

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// FuzzID: an id that is read is written the same, but for capitals.
func FuzzID(f *testing.F) {
	f.Add("0123abcd-4567-8123-8fff-0123456789ab", uint64(1), uint64(2), uint64(3), 1)
	f.Add("0123abcd-4567-8123-8fff-0123456789ab-17", uint64(1<<60-1), uint64(1<<64-4), uint64(1<<slackBits-1), 17)
	f.Add("0123ABCD-4567-8123-8fff-0123456789ab", uint64(0), uint64(0), uint64(0), 1<<40)
	f.Fuzz(func(t *testing.T, id string, stamp, seal, slack uint64, n int) {
		if stamp, seal, slack, n, ok := parseID(id); ok {
			if got := string(appendID(nil, stamp, seal, slack, n)); got != strings.ToLower(id) {
				t.Errorf("%q is read as that of %q", id, got)
			}
		}
		stamp, seal, slack, n = stamp&(1<<60-1), seal&(1<<sealBits-1), slack&(1<<slackBits-1), max(n, 1)
		gotStamp, gotSeal, gotSlack, gotN, ok := parseID(string(appendID(nil, stamp, seal, slack, n)))
		if !ok || gotStamp != stamp || gotSeal != seal || gotSlack != slack || gotN != n {
			t.Errorf("%x %x %x %d comes back as %x %x %x %d, %v", stamp, seal, slack, n, gotStamp, gotSeal, gotSlack, gotN, ok)
		}
	})
}

// FuzzSlack: times are rounded down, by less than a hundredth.
func FuzzSlack(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(time.Millisecond))
	f.Add(int64(127*time.Millisecond + 999999))
	f.Add(int64(128 * time.Millisecond))
	f.Add(int64(decider.GrantLife))
	f.Fuzz(func(t *testing.T, ns int64) {
		d := time.Duration(ns)
		if d < 0 || d > decider.GrantLife {
			return
		}
		got := span(coarse(d))
		if got > d || d-got > time.Millisecond+d/128 || coarse(d) >= 1<<slackBits {
			t.Errorf("%v becomes %v", d, got)
		}
	})
}
