package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/weir-go/weir/internal/siphash"
)

var errSpoilt = errors.New("it makes no sense")

// saved is what a snapshot says.
type saved struct {
	wall, clock time.Duration
	counts      []savedCounts
	limits      []savedLimits
	under       []string // rules
	leases      []savedLease
	token       uint64
	grants      savedGrants
}

type savedCounts struct {
	rule  string
	trial bool
	since time.Duration
	how   string
	data  []byte
}

type savedLimits struct {
	rule string
	of   []savedLimit
}

type savedLimit struct {
	bucket string
	limit  int
	lasts  time.Duration
}

type savedLease struct {
	lease
	under []int // places in saved.under
}

type savedGrants struct {
	key     siphash.Key
	seq     uint64
	turned  time.Duration
	floor   time.Duration
	settled [2]map[uint64]struct{}
}

// decode reads what Server.Snapshot writes.
func decode(b []byte) (*saved, error) {
	const least = len(snapshotMagic) + 4
	if n := min(len(b), len(snapshotMagic)); string(b[:n]) != snapshotMagic[:n] {
		return nil, fmt.Errorf("it begins with %q: not a snapshot, or of another version", b[:n])
	}
	if len(b) < least {
		return nil, io.ErrUnexpectedEOF
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.ChecksumIEEE(b); got != sum {
		return nil, fmt.Errorf("its checksum is %08x, not %08x: it is truncated, or has been changed", got, sum)
	}
	d := decoder{b: b[len(snapshotMagic):]}
	from := &saved{wall: time.Duration(d.uint(math.MaxInt64)), clock: d.time()}
	for d.record(from) {
	}
	if d.bad || len(d.b) > 0 || from.grants.settled[0] == nil {
		return nil, errSpoilt
	}
	return from, nil
}

// A decoder takes things off a text. If one is not there, it is bad, and all are
// zero from then on.
type decoder struct {
	b   []byte
	bad bool
}

// record reads one record; false if it is the last.
func (d *decoder) record(from *saved) bool {
	kind := d.bytes(1)
	if kind == nil || kind[0] == recordEnd {
		return false
	}
	var names []string
	for range d.int(len(d.b)) {
		names = append(names, d.text())
	}
	body := decoder{b: d.bytes(d.int(len(d.b)))}
	one := kind[0] == recordCounts || kind[0] == recordTrial || kind[0] == recordLimits
	if d.bad || one && len(names) != 1 {
		d.bad = true
		return false
	}
	switch kind[0] {
	case recordCounts, recordTrial:
		from.counts = append(from.counts, savedCounts{
			rule: names[0], trial: kind[0] == recordTrial, since: body.time(), how: body.text(), data: body.b,
		})
		body.b = nil
	case recordLimits:
		l := savedLimits{rule: names[0]}
		for len(body.b) > 0 {
			l.of = append(l.of, savedLimit{body.text(), body.int(math.MaxInt32), body.time()})
		}
		from.limits = append(from.limits, l)
	case recordLeases:
		from.under, from.token = names, body.uint(math.MaxInt64)
		for len(body.b) > 0 {
			from.leases = append(from.leases, body.lease(len(names)))
		}
	case recordGrants:
		from.grants = body.grants()
	default:
		d.bad = true
	}
	d.bad = d.bad || body.bad || len(body.b) > 0
	return !d.bad
}

func (d *decoder) lease(rules int) (l savedLease) {
	copy(l.id[:], d.bytes(len(l.id)))
	l.key = d.text()
	l.n = d.int(math.MaxInt32)
	l.token = d.uint(math.MaxInt64)
	l.until, l.ttl, l.most = d.time(), d.time(), d.time()
	for range d.int(len(d.b)) {
		l.under = append(l.under, d.int(rules-1))
	}
	if l.n == 0 || l.ttl == 0 || l.ttl > l.most {
		d.spoil()
	}
	return l
}

func (d *decoder) grants() (g savedGrants) {
	g.key = siphash.Key{K0: d.fixed64(), K1: d.fixed64()}
	g.seq, g.turned, g.floor = d.fixed64(), d.time(), d.time()
	for i := range g.settled {
		g.settled[i] = map[uint64]struct{}{}
		for range d.int(len(d.b) / 8) {
			g.settled[i][d.fixed64()] = struct{}{}
		}
	}
	return g
}

func (d *decoder) spoil() { d.bad, d.b = true, nil }

// bytes takes n bytes; nil if there are not as many.
func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.spoil()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// uint takes a number of at most most.
func (d *decoder) uint(most uint64) uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 || x > most {
		d.spoil()
		return 0
	}
	d.b = d.b[n:]
	return x
}

// int is uint for a number that is used as one: at most most, which may be
// negative, and then there is none.
func (d *decoder) int(most int) int {
	if most < 0 {
		d.spoil()
	}
	return int(d.uint(uint64(max(most, 0))))
}

func (d *decoder) fixed64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) text() string { return string(d.bytes(d.int(len(d.b)))) }

// time takes an instant, or a length of time.
func (d *decoder) time() time.Duration { return time.Duration(d.uint(maxSpan)) }
