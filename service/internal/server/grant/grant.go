// Package grant issues the ids of grants, and remembers which were settled.
package grant

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// maxSettled is how many settled grants are remembered for GrantLife. If more
// than twice as many are settled within GrantLife, the oldest grants cannot be
// settled any more.
const maxSettled = 1 << 19

// A Ledger seals and reads the ids of grants without remembering each grant: an
// id states its instant, cost and slack under a seal that also covers the key and
// the rules. Only grants that were settled are remembered.
type Ledger struct {
	secret siphash.Key
	seq    atomic.Uint64

	mu      sync.Mutex             // guards what follows
	settled [2]map[uint64]struct{} // stamps since turned, and those before
	turned  time.Duration
	floor   time.Duration // earlier grants may have been settled and forgotten
}

// NewLedger returns a Ledger with a random secret.
func NewLedger() *Ledger {
	return &Ledger{secret: siphash.New(), settled: [2]map[uint64]struct{}{{}, nil}}
}

// seqBits is how many bits of a stamp distinguish the grants of a millisecond.
const seqBits = 20

// AppendID appends a new id: see decider.Decider.
func (l *Ledger) AppendID(b []byte, g decider.Grant, key string) []byte {
	stamp := uint64(g.At/time.Millisecond)<<seqBits | l.seq.Add(1)&(1<<seqBits-1)
	slack := coarse(g.Slack)
	return appendID(b, stamp, l.seal(stamp, slack, g.N, g.Rules, key), slack, g.N)
}

// appendID writes a UUID: 60 bits are the stamp, and 62 are the slack, in the
// first slackBits, and the seal.
func appendID(b []byte, stamp, seal, slack uint64, n int) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], stamp<<4&^0xffff|8<<12|stamp&0xfff)
	binary.BigEndian.PutUint64(id[8:], 1<<63|slack<<sealBits|seal)
	b = hex.AppendEncode(b, id[:4])
	for _, part := range [][]byte{id[4:6], id[6:8], id[8:10], id[10:]} {
		b = hex.AppendEncode(append(b, '-'), part)
	}
	if n != 1 {
		b = strconv.AppendInt(append(b, '-'), int64(n), 10)
	}
	return b
}

// parseID reads what appendID writes, in either case.
func parseID(id string) (stamp, seal, slack uint64, n int, ok bool) {
	uuid, cost := id[:min(len(id), 36)], id[min(len(id), 37):]
	if n = 1; cost != "" {
		n, _ = strconv.Atoi(cost)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(b) != 16 || n < 1 {
		return 0, 0, 0, 0, false
	}
	first, second := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	stamp, seal, slack = first>>16<<12|first&0xfff, second&(1<<sealBits-1), second<<2>>(2+sealBits)
	return stamp, seal, slack, n, strings.EqualFold(string(appendID(nil, stamp, seal, slack, n)), id)
}

const (
	slackBits = 12
	sealBits  = 62 - slackBits
)

// coarse encodes a duration in slackBits, rounded down: a floating-point number of
// milliseconds with an exponent of five bits and a mantissa of seven.
func coarse(d time.Duration) uint64 {
	ms := uint64(max(d, 0) / time.Millisecond)
	if ms < 1<<7 {
		return ms
	}
	e := bits.Len64(ms) - 8
	if e >= 1<<5-1 {
		return 1<<slackBits - 1
	}
	return uint64(e+1)<<7 | ms>>e&(1<<7-1)
}

// span decodes a duration.
func span(c uint64) time.Duration {
	ms := c & (1<<7 - 1)
	if e := c >> 7; e > 0 {
		ms = (ms | 1<<7) << (e - 1)
	}
	return time.Duration(ms) * time.Millisecond
}

// seal is the SipHash, under the secret, of all that an id states.
func (l *Ledger) seal(stamp, slack uint64, n int, rules uint64, key string) uint64 {
	var buf [256]byte
	b := buf[:0]
	for _, n := range [...]uint64{stamp, slack, uint64(n), rules} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return l.secret.Bytes(append(b, key...)) >> (64 - sealBits)
}

// Redeem reads an id of a grant of a key and remembers it as settled. Rules holds the
// possible values of its Grant.Rules; which is the index of the actual one. The error is
// decider.ErrNoGrant if the id is not valid, or was settled before.
func (l *Ledger) Redeem(id, key string, rules []uint64, now time.Duration) (g decider.Grant, which int, err error) {
	stamp, seal, slack, n, ok := parseID(id)
	at := time.Duration(stamp>>seqBits) * time.Millisecond
	which = slices.IndexFunc(rules, func(sum uint64) bool { return seal == l.seal(stamp, slack, n, sum, key) })
	if !ok || which < 0 || now-at > decider.GrantLife || !l.settle(stamp, at, now) {
		return decider.Grant{}, 0, decider.ErrNoGrant
	}
	at += time.Millisecond // the stamp is rounded down
	return decider.Grant{N: n, At: at, Rules: rules[which], Slack: span(slack)}, which, nil
}

// settle remembers a stamp, and reports whether it was not settled before.
func (l *Ledger) settle(stamp uint64, at, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.settled[0]) >= maxSettled || now-l.turned > decider.GrantLife {
		l.settled[0], l.settled[1] = map[uint64]struct{}{}, l.settled[0]
		l.turned, l.floor = now, l.turned
	}
	_, again := l.settled[0][stamp]
	if _, before := l.settled[1][stamp]; again || before || at < l.floor {
		return false
	}
	l.settled[0][stamp] = struct{}{}
	return true
}

// A State is the content of a Ledger, for snapshots.
type State struct {
	Secret        siphash.Key
	Seq           uint64
	Turned, Floor time.Duration
	Settled       [2][]uint64 // stamps
}

// State returns the state.
func (l *Ledger) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Secret: l.secret, Seq: l.seq.Load(), Turned: l.turned, Floor: l.floor}
	for i, settled := range l.settled {
		s.Settled[i] = slices.Collect(maps.Keys(settled))
	}
	return s
}

// Restore sets the state. It must not be called concurrently with AppendID and
// Redeem.
func (l *Ledger) Restore(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secret, l.turned, l.floor = s.Secret, s.Turned, s.Floor
	l.seq.Store(s.Seq)
	for i, settled := range s.Settled {
		l.settled[i] = map[uint64]struct{}{}
		for _, stamp := range settled {
			l.settled[i][stamp] = struct{}{}
		}
	}
}
