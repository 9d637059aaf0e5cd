package server

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/config"
)

// A Grant is what a request was given. The zero Grant is nothing.
type Grant struct {
	n     int
	by    uint64        // the rules that gave it, those on trial left out
	slack time.Duration // how long all of it can come back: see Rule.owed
}

// GrantLife is how long a grant can be settled.
const GrantLife = time.Hour

// maxSettled is how many grants can be settled without an end to the life of
// others: if more than twice as many are within GrantLife, the eldest cannot be
// settled any more.
const maxSettled = 1 << 19

// ErrNoGrant is the error of Settle.
var ErrNoGrant = errors.New("there is no such grant of this key: it has been settled, or is too old")

// grants know which ids are true and not settled yet, without a note of each:
// an id says when, how much, and for which key, under a seal. Only those that
// were settled are noted, for as long as they could be again.
type grants struct {
	key siphash.Key
	seq atomic.Uint64

	mu      sync.Mutex             // guards what follows
	settled [2]map[uint64]struct{} // since turned, and in the time before that
	turned  time.Duration
	floor   time.Duration // what was granted earlier may have been settled and forgotten
}

func (g *grants) init() {
	g.key = siphash.New()
	g.settled[0] = map[uint64]struct{}{}
}

// seqBits is how many bits of an id tell the grants of a millisecond apart.
const seqBits = 20

// AppendID appends an id for a Grant of a key, which has just been given: a UUID
// of version 8, followed by a hyphen and the cost if that is not 1. A Grant
// should be given one id only: each can be settled.
func (s *Server) AppendID(b []byte, g Grant, key string) []byte {
	stamp := uint64(s.now()/time.Millisecond)<<seqBits | s.grants.seq.Add(1)&(1<<seqBits-1)
	slack := coarse(g.slack)
	return appendID(b, stamp, s.grants.seal(stamp, slack, g, key), slack, g.n)
}

// appendID writes into a UUID: 60 bits of the stamp, and 62 of which the first
// slackBits are the slack and the others the seal.
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

// parseID reads what appendID writes, in capitals too.
func parseID(id string) (stamp, seal, slack uint64, n int, ok bool) {
	n = 1
	if len(id) > 36 {
		var err error
		if n, err = strconv.Atoi(id[37:]); err != nil || id[36] != '-' || n < 1 || n == 1 || id[37] == '+' || id[37] == '0' {
			return 0, 0, 0, 0, false
		}
		id = id[:36]
	}
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return 0, 0, 0, 0, false
	}
	b, err := hex.DecodeString(id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:])
	if err != nil {
		return 0, 0, 0, 0, false
	}
	first, second := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if first>>12&0xf != 8 || second>>62 != 2 {
		return 0, 0, 0, 0, false
	}
	return first>>16<<12 | first&0xfff, second & (1<<sealBits - 1), second << 2 >> (2 + sealBits), n, true
}

const (
	slackBits = 12
	sealBits  = 62 - slackBits
)

// coarse writes a time in slackBits, rounded down: five are the exponent, seven
// the mantissa, of milliseconds.
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

// span is the time that coarse has written.
func span(c uint64) time.Duration {
	ms := c & (1<<7 - 1)
	if e := c >> 7; e > 0 {
		ms = (ms | 1<<7) << (e - 1)
	}
	return time.Duration(ms) * time.Millisecond
}

// seal is what only this Server can put on an id: SipHash of all that it says,
// and of the rules that gave.
func (g *grants) seal(stamp, slack uint64, of Grant, key string) uint64 {
	var buf [256]byte
	b := buf[:0]
	for _, n := range [...]uint64{stamp, slack, uint64(of.n), of.by} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return g.key.Bytes(append(b, key...)) >> (64 - sealBits)
}

// gives reports whether a grant is the rule's, too: not that of one on trial,
// which may not have given.
func (r *Rule) gives() bool { return r.Quoted() && r.Mode != config.Shadow }

// mark tells the state of the rule from that of any other. A grant has the sum of
// them, in whatever order the rules are.
func (r *Rule) mark() uint64 {
	return bits.RotateLeft64((r.print^uint64(r.live.since))*0x9e37_79b9_7f4a_7c15, 32) * 0x9e37_79b9_7f4a_7c15
}

// settle takes note that what was granted at that time is settled; once.
func (g *grants) settle(stamp uint64, at, now time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.settled[0]) >= maxSettled || now-g.turned > GrantLife {
		g.settled[0], g.settled[1] = map[uint64]struct{}{}, g.settled[0]
		g.turned, g.floor = now, g.turned
	}
	_, again := g.settled[0][stamp]
	if _, before := g.settled[1][stamp]; again || before || at < g.floor {
		return ErrNoGrant
	}
	g.settled[0][stamp] = struct{}{}
	return nil
}

// Settled is what became of a grant that was settled.
type Settled struct {
	Was     int // tokens that were taken
	Charged int // tokens that are charged: as many as was said, unless that is beyond the debt allowed, or too late to come back
}

// Settle tells the true cost of what a grant of the key was for, once and
// within GrantLife: what was too much comes back, as far as its bucket would not
// be full again without it; what was too little is charged, into debt as far as
// the rule allows. With n = 0 all comes back. The error is ErrNoGrant if the id
// is not that of a live grant of the key, or if other rules count for the key now.
// It panics if n < 0.
func (s *Server) Settle(key, id string, n int) (Settled, error) {
	if n < 0 {
		panic("server: negative cost")
	}
	stamp, seal, slack, was, ok := parseID(id)
	now, at := s.now(), time.Duration(stamp>>seqBits)*time.Millisecond
	_, rules, _ := s.keys.find(key, s.rules.Load())
	g := Grant{n: was}
	for _, r := range rules {
		if r.gives() {
			g.by += r.mark()
		}
	}
	if !ok || seal != s.grants.seal(stamp, slack, g, key) || now-at > GrantLife {
		return Settled{}, ErrNoGrant
	}
	if err := s.grants.settle(stamp, at, now); err != nil {
		return Settled{}, err
	}
	at += time.Millisecond // the stamp is of whole ones
	done, asked := Settled{Was: was, Charged: n}, false
	for _, r := range rules {
		if !r.gives() {
			continue
		}
		charged := r.charge(key, s.epoch.Add(at), now-r.full(at, span(slack)), was, n)
		if !asked || charged > done.Charged {
			done.Charged, asked = charged, true
		}
	}
	return done, nil
}

// full returns by when a bucket would have been full without what was granted at
// that time, by the rate of then so long after it: sooner, if the rate has been
// raised.
func (r *Rule) full(at, slack time.Duration) time.Duration {
	if faster := time.Duration(r.live.faster.Load()); faster > at && r.refills {
		fill := min(float64(r.limit)*r.interval, float64(slack)) // which may be more than a Duration
		return min(at+slack, faster+time.Duration(fill))
	}
	return at + slack
}

// charge settles with one rule: into no more debt than it allows.
func (r *Rule) charge(key string, at time.Time, after time.Duration, was, n int) int {
	if n > was {
		r.live.charging.Lock()
		defer r.live.charging.Unlock()
		debt := r.Limit()
		if r.MaxDebt != nil {
			debt = *r.MaxDebt
		}
		room := debt + r.Limit() - r.live.buckets.used(r.bucket(key))
		n = min(n, was+max(room, 0))
	}
	return r.settle(key, at, after, was, n)
}
