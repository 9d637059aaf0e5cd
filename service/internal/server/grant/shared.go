package grant

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Shared seals and reads the ids of grants, for nodes that share a secret: each of them can
// settle a grant. It does not know which were settled. It is safe for concurrent use.
//
// Its ids have the shape of those of a Ledger, with wall time, and with a random number.
type Shared struct {
	mu     sync.Mutex // guards secret
	secret siphash.Key
}

// Secret returns the secret. The first is drawn at random.
func (s *Shared) Secret() siphash.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secret == (siphash.Key{}) {
		s.secret = siphash.New()
	}
	return s.secret
}

// SetSecret changes the secret: ids under another one are not valid any more.
func (s *Shared) SetSecret(secret siphash.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = secret
}

// AppendID appends a new id of a grant that was given at an instant: see decider.Decider.
func (s *Shared) AppendID(b []byte, g decider.Grant, at time.Time, key string) []byte {
	ms, number := uint64(at.UnixMilli()), rand.Uint64()&(1<<numberBits-1)
	stamp := ms&(1<<timeBits-1)<<numberBits | number
	return appendID(b, stamp, seal(s.Secret(), ms, number, g.N, g.Rules, key), g.N)
}

// clockSkew bounds the time by which the clocks of other nodes are ahead.
const clockSkew = time.Minute

// Read reads an id of a grant of a key. Rules holds the possible values of its Grant.Rules;
// which is the index of the actual one. At is the instant of the grant, rounded down to whole
// milliseconds. The error is decider.ErrNoGrant if the id is not valid.
func (s *Shared) Read(id, key string, rules []uint64, now time.Time) (g decider.Grant, which int, at time.Time, err error) {
	stamp, got, n, ok := parseID(id)
	ms, number := latest(uint64(now.Add(clockSkew).UnixMilli()), stamp>>numberBits, timeBits), stamp&(1<<numberBits-1)
	at = time.UnixMilli(int64(ms))
	secret := s.Secret()
	for which, sum := range rules {
		if ok && now.Sub(at) <= decider.GrantLife && sealed(got, secret, ms, number, n, sum, key) {
			return decider.Grant{N: n, Rules: sum}, which, at, nil
		}
	}
	return decider.Grant{}, 0, time.Time{}, decider.ErrNoGrant
}
