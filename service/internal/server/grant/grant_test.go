package grant

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/decider"
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

// Ids that a release has sealed, with the secret {1, 2}, for grants of the key user:42 are redeemed once.
func TestReleasedIDs(t *testing.T) {
	for _, tt := range []struct {
		release, id string
		want        decider.Grant
	}{
		{"f6d7ae14", "02c01600-0000-8001-8000-f63669c8ed00", decider.Grant{N: 1, At: 90123 * time.Millisecond, Rules: 77}},
		{"f6d7ae14", "02c6f000-0000-8002-8aef-097a9c6d8e11-17", decider.Grant{N: 17, At: 91 * time.Second, Rules: 77}},
		{"f6d7ae14", "02cec000-0000-8003-bffd-b4a162484820-2", decider.Grant{N: 2, At: 92 * time.Second, Rules: 78}},
		{"3550d8c9", "02c01600-0000-8001-96c8-71d1ab6ff156", decider.Grant{N: 1, At: 90123 * time.Millisecond, Rules: 77}},
		{"3550d8c9", "02c6f000-0000-8002-8dce-98c2e00883cf-17", decider.Grant{N: 17, At: 91 * time.Second, Rules: 77}},
	} {
		l := NewLedger()
		l.secret = siphash.Key{K0: 1, K1: 2}
		l.sealed.Store(3)
		g, _, err := l.Redeem(tt.id, "user:42", []uint64{77, 78}, 93*time.Second)
		if err != nil || g != tt.want {
			t.Errorf("%s: %s: %+v, %v: want %+v", tt.release, tt.id, g, err, tt.want)
		}
		if _, _, err := l.Redeem(tt.id, "user:42", []uint64{77, 78}, 93*time.Second); err != decider.ErrNoGrant {
			t.Errorf("%s: %s is redeemed twice: %v", tt.release, tt.id, err)
		}
		if _, _, err := l.Redeem(tt.id, "user:43", []uint64{77, 78}, 93*time.Second); err != decider.ErrNoGrant {
			t.Errorf("%s: %s: another key: %v", tt.release, tt.id, err)
		}
	}
}
