package keyed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/siphash"
)

// magic begins a snapshot: what it is, and the version of the format.
const magic = "weirkey1"

// errUnstable is the error of a key type without a hash of its own.
var errUnstable = errors.New("keyed: no snapshots of this type of keys: their hash differs in every process (use strings, integers, arrays of bytes or netip)")

// Snapshot writes the buckets of all keys, for Restore in another process. The
// limiter goes on meanwhile: what is decided during the call may or may not be
// in it. No shard is locked for longer than it takes to copy a page, but a
// change of quotas waits until all is written. Only keys of types with a hash
// of their own can be written. The snapshot holds no keys, but the seed of
// their fingerprints: whoever reads it can make keys collide.
func (l *Limiter[K]) Snapshot(w io.Writer) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	t := l.table.Load()
	sum := crc32.NewIEEE()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	head := append([]byte(magic), l.hash.kind[:]...)
	head = binary.LittleEndian.AppendUint64(head, t.seed.K0)
	head = binary.LittleEndian.AppendUint64(head, t.seed.K1)
	head = binary.LittleEndian.AppendUint64(head, uint64(t.now()))
	head = append(head, marshal(&l.quota)...) // only whoever holds changes sets it
	out.Write(head)                           // bufio keeps the error for Flush
	var buf []byte
	for i := range t.shards {
		t.shards[i].each(t, func(es []entry) {
			buf = buf[:0]
			for i := range es {
				buf = es[i].append(buf)
			}
			out.Write(buf)
		})
	}
	out.Write((&entry{}).append(nil)) // the end
	if err := out.Flush(); err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	return nil
}

// An entry is a bucket in a snapshot: the fingerprint, the bucket and, after a
// byte that tells whether there is one, a quota of its own. The one with the
// fingerprint 0 is the last.
type entry struct {
	slot
	own *gcra.Quota
}

const entryBytes = 17 // without a quota

func (e *entry) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.print)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.bucket))
	if e.own == nil {
		return append(b, 0)
	}
	return append(append(b, 1), marshal(e.own)...)
}

func marshal(q *gcra.Quota) []byte {
	b, _ := q.MarshalBinary() // its error is nil
	return b
}

// each hands all buckets in debt to f, a page at a time and without the lock.
func (s *shard[K]) each(t *table[K], f func([]entry)) {
	var es []entry
	for at, more := uint64(0), true; more; { // the prefix of the next page
		es = es[:0]
		s.mu.Lock()
		at, more = s.copyPage(t, at, &es)
		s.mu.Unlock()
		f(es)
	}
}

// copyPage appends what is in debt on the page with the prefix at, and those of
// its keys that have their own buckets: a key goes from one to the other under
// the same lock. It returns the prefix of the next page, if there is one; a
// page that is split meanwhile is before or after it with both its halves.
func (s *shard[K]) copyPage(t *table[K], at uint64, es *[]entry) (next uint64, more bool) {
	now := t.now()
	depth := uint8(0)
	if s.dir.pages != nil {
		p := s.dir.pages[at>>(64-s.dir.depth)]
		depth = p.depth
		level := s.quota.Level(now)
		for _, e := range p.slots {
			if e.bucket > level {
				*es = append(*es, entry{slot: e})
			}
		}
	}
	shards := uint64(len(t.shards))
	for print, o := range s.own {
		if prefix(print, shards, depth) != int(at>>(64-depth)) {
			continue
		}
		// Those who wait will ask again.
		e := entry{slot: slot{print, o.quota.Refund(o.bucket, o.queue.Taken(o.quota, now))}}
		if o.kept {
			e.own = o.quota
		}
		if !o.quota.Full(e.bucket, now) {
			*es = append(*es, e)
		}
	}
	next = at + 1<<(64-depth)
	return next, next != 0 && depth > 0
}

// Restore puts the buckets of a Snapshot in place of those there are, and
// counts anew. The time since then counts: buckets are refilled by it. Tokens
// are what they were, under the Quotas that the Limiter has now; a key that had
// a Quota of its own should have it again before Restore. If there is more than
// fits in memory, buckets are forgotten as under a flood. If there is an error,
// nothing is changed. What was forgotten before the Snapshot is not in it: such
// a key has a full bucket again.
//
// Restore before the Limiter is used: what is decided during the call is lost,
// and for a while there is memory for both. It may read beyond the snapshot.
func (l *Limiter[K]) Restore(r io.Reader) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	t, err := l.restore(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return fmt.Errorf("keyed: reading a snapshot: %w", err)
	}
	l.table.Store(t)
	return nil
}

func (l *Limiter[K]) restore(r *bufio.Reader) (*table[K], error) {
	sum := crc32.NewIEEE()
	in := io.TeeReader(r, sum)
	head := make([]byte, len(magic)+3+24+gcra.QuotaBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, unexpected(err)
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("it begins with %q: not a snapshot, or of another version", head[:len(magic)])
	}
	head = head[len(magic):]
	if [3]byte(head) != l.hash.kind {
		return nil, errors.New("it is of another type of keys, or counts other bits of addresses")
	}
	head = head[3:]
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(head[8*i:]) }
	var from gcra.Quota
	if err := from.UnmarshalBinary(head[24:]); err != nil {
		return nil, err
	}
	q := l.quota
	t := newTable[K](l.cfg.Memory, siphash.Key{K0: field(0), K1: field(1)}, &q)
	t.noTop = l.cfg.NoTop
	now, then := t.now(), time.Duration(field(2))
	for key, q := range l.quotas { // only whoever holds changes sets them
		l.setQuotaFor(t, key, q, true)
	}
	for {
		e, err := readEntry(in)
		switch {
		case err != nil:
			return nil, unexpected(err)
		case e.print != 0:
			if e.own == nil {
				e.own = &from
			}
			t.shard(e.print).restore(t, e, then, now)
			continue
		}
		want := sum.Sum32()
		var got [4]byte
		if _, err := io.ReadFull(r, got[:]); err != nil {
			return nil, unexpected(err)
		}
		if got := binary.LittleEndian.Uint32(got[:]); got != want {
			return nil, fmt.Errorf("its checksum is %08x: want %08x", got, want)
		}
		return t, nil
	}
}

func readEntry(in io.Reader) (e entry, err error) {
	var b [max(entryBytes, gcra.QuotaBytes)]byte
	if _, err := io.ReadFull(in, b[:entryBytes]); err != nil {
		return e, err
	}
	e.slot = slot{binary.LittleEndian.Uint64(b[:]), gcra.Bucket(binary.LittleEndian.Uint64(b[8:]))}
	if b[16] == 0 {
		return e, nil
	}
	if _, err := io.ReadFull(in, b[:gcra.QuotaBytes]); err != nil {
		return e, err
	}
	e.own = new(gcra.Quota)
	return e, e.own.UnmarshalBinary(b[:gcra.QuotaBytes])
}

// restore gives a key of a new table the bucket that it had under the Quota
// e.own at the instant then.
func (s *shard[K]) restore(t *table[K], e entry, then, now time.Duration) {
	// A clock that was set back since must not make debts larger, nor may
	// anything else make them larger than what can be.
	ahead := e.own.Level(then) - min(e.own.Level(now), e.own.Level(then))
	most, _ := e.own.Charge(0, now, math.MaxInt, e.own.Burst())
	b := min(e.bucket-min(ahead, e.bucket), most)
	var p place
	s.find(t, &p, e.print, now)
	s.store(t, &p, max(e.own.Move(b, now, p.quota), p.bucket))
}

// unexpected makes the end of the input an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
