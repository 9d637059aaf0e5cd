package keyedtable

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
	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/siphash"
)

// magic begins a snapshot: the name and the version of the format. After it come
// the kind of keys, the seed of fingerprints, the instant, and the law; then
// entries, of which the one with the fingerprint 0 is the last; then a checksum
// of all. Numbers have eight bytes, the lowest first.
const magic = "weirkey2"

// errUnstable is the error of a key type that only maphash can hash.
var errUnstable = errors.New("keyed: no snapshots of this type of keys: their hash differs in every process (use strings, integers, arrays of bytes or netip)")

// An entry is a value in a snapshot: the fingerprint, the words of the value and,
// after a byte that tells whether there is one, a Quota for this key alone.
type entry struct {
	print uint64
	value pagetable.Value
	own   *gcra.Quota
}

func (e *entry) append(b []byte, words int) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.print)
	if b = binary.LittleEndian.AppendUint64(b, e.value.A); words == 3 {
		b = binary.LittleEndian.AppendUint64(b, e.value.B)
	}
	if e.own == nil {
		return append(b, 0)
	}
	return append(append(b, 1), marshal(e.own)...)
}

func readEntry(in io.Reader, words int) (e entry, err error) {
	var b [max(25, gcra.QuotaBytes)]byte
	if _, err := io.ReadFull(in, b[:8*words+1]); err != nil {
		return e, err
	}
	e.print, e.value.A = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if words == 3 {
		e.value.B = binary.LittleEndian.Uint64(b[16:])
	}
	if b[8*words] == 0 {
		return e, nil
	}
	if _, err := io.ReadFull(in, b[:gcra.QuotaBytes]); err != nil {
		return e, err
	}
	e.own = new(gcra.Quota)
	return e, e.own.UnmarshalBinary(b[:gcra.QuotaBytes])
}

func marshal(q *gcra.Quota) []byte {
	b, _ := q.MarshalBinary() // its error is nil
	return b
}

// write writes the head and all entries. copyPage appends the entries of the page
// with a prefix, under the lock of its shard, and returns the bits of its prefix.
func (c *Common[K]) write(w io.Writer, law []byte, copyPage func(t *table[K], s *shard[K], at uint64, es *[]entry) (depth uint8)) error {
	t := c.table.Load()
	sum := crc32.NewIEEE()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	head := append([]byte(magic), c.hash.kind[:]...)
	for _, x := range []uint64{t.seed.K0, t.seed.K1, uint64(t.now())} {
		head = binary.LittleEndian.AppendUint64(head, x)
	}
	out.Write(append(head, law...)) // bufio keeps the error for Flush
	var es []entry
	var buf []byte
	for i := range t.shards {
		s := &t.shards[i]
		for at, more := uint64(0), true; more; { // the prefix of the next page
			es = es[:0]
			s.mu.Lock()
			depth := copyPage(t, s, at, &es)
			s.mu.Unlock()
			buf = buf[:0]
			for i := range es {
				buf = es[i].append(buf, t.layout.Words)
			}
			out.Write(buf)
			// A page that is split meanwhile is before or after the next prefix with
			// both its halves.
			at += 1 << (64 - depth)
			more = at != 0 && depth > 0
		}
	}
	out.Write((&entry{}).append(nil, t.layout.Words)) // the end
	if err := out.Flush(); err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	return nil
}

// copySlots appends the live values on the page with the prefix at, and returns
// the bits of that prefix.
func copySlots[K comparable, L pagetable.Law](t *table[K], s *shard[K], at uint64, by L, es *[]entry) (depth uint8) {
	if s.dir.Pages == nil {
		return 0
	}
	p := s.dir.Pages[at>>(64-s.dir.Depth)]
	for i := t.layout.First; i < pagetable.Words; i += t.layout.Words {
		if v := t.layout.Get(p, i+1); by.Weight(v) > 0 {
			*es = append(*es, entry{print: p[i], value: v})
		}
	}
	return p.Depth()
}

// read reads a snapshot into a new table. begin returns that table and how to
// restore an entry into it, given the law and the instant then.
func (c *Common[K]) read(r io.Reader, lawBytes int, begin func(law []byte, seed siphash.Key, then time.Duration) (*table[K], func(entry), error)) error {
	t, err := c.readTable(bufio.NewReaderSize(r, 1<<16), lawBytes, begin)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("keyed: reading a snapshot: %w", err)
	}
	c.table.Store(t)
	return nil
}

func (c *Common[K]) readTable(r *bufio.Reader, lawBytes int, begin func([]byte, siphash.Key, time.Duration) (*table[K], func(entry), error)) (*table[K], error) {
	sum := crc32.NewIEEE()
	in := io.TeeReader(r, sum)
	head := make([]byte, len(magic)+3+24+lawBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("it begins with %q: not a snapshot, or of another version", head[:len(magic)])
	}
	head = head[len(magic):]
	if [3]byte(head) != c.hash.kind {
		return nil, errors.New("it is of another type of keys, or counts other bits of addresses")
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(head[3+8*i:]) }
	t, restore, err := begin(head[27:], siphash.Key{K0: field(0), K1: field(1)}, time.Duration(field(2)))
	if err != nil {
		return nil, err
	}
	for {
		e, err := readEntry(in, t.layout.Words)
		if err != nil {
			return nil, err
		}
		if e.print == 0 {
			break
		}
		restore(e)
	}
	want := sum.Sum32()
	var got [4]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return nil, err
	}
	if got := binary.LittleEndian.Uint32(got[:]); got != want {
		return nil, fmt.Errorf("its checksum is %08x: want %08x", got, want)
	}
	return t, nil
}

// bucketLaw begins the law of buckets, windowLaw that of windows.
const (
	bucketLaw = 'b'
	windowLaw = 'w'
)

// Kinds of windows in a law; windows of neither kind have 0.
const (
	slidingWindows = 1
	datedWindows   = 2
)

var errOtherLaw = errors.New("it has buckets instead of windows, or windows instead of buckets")

// Snapshot writes the buckets of all keys, as keyed.Limiter.Snapshot says.
func (l *Buckets[K]) Snapshot(w io.Writer) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	law := append([]byte{bucketLaw}, marshal(&l.quota)...) // it changes under l.changes only
	return l.write(w, law, func(t *table[K], s *shard[K], at uint64, es *[]entry) uint8 {
		now := t.now()
		depth := copySlots(t, s, at, pagetable.Level(s.quota.Level(now)), es)
		// A bucket moves from its slot into own, and back, under the lock.
		for print, o := range s.own {
			if pagetable.Prefix(print, uint64(len(t.shards)), depth) != int(at>>(64-depth)) {
				continue
			}
			// Calls that wait will ask again.
			b := o.quota.Refund(o.bucket, o.queue.Taken(o.quota, now))
			e := entry{print: print, value: pagetable.Value{A: uint64(b)}}
			if o.kept {
				e.own = o.quota
			}
			if b > o.quota.Level(now) {
				*es = append(*es, e)
			}
		}
		return depth
	})
}

// Restore puts the buckets of a Snapshot in place of the present ones.
func (l *Buckets[K]) Restore(r io.Reader) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	return l.read(r, 1+gcra.QuotaBytes, func(law []byte, seed siphash.Key, then time.Duration) (*table[K], func(entry), error) {
		var from gcra.Quota
		if law[0] != bucketLaw {
			return nil, nil, errOtherLaw
		}
		if err := from.UnmarshalBinary(law[1:]); err != nil {
			return nil, nil, err
		}
		q := l.quota
		t := l.newTable(seed, &q)
		now := t.now()
		for key, q := range l.quotas { // they change under l.changes only
			l.setQuotaFor(t, key, q, true)
		}
		return t, func(e entry) {
			if e.own == nil {
				e.own = &from
			}
			t.shard(e.print).restoreBucket(t, e, then, now)
		}, nil
	})
}

// restoreBucket gives a key of a new table the bucket that it had under the Quota
// e.own at the instant then.
func (s *shard[K]) restoreBucket(t *table[K], e entry, then, now time.Duration) {
	// A clock that was set back since must not make debts larger, and no debt is
	// larger than what can be.
	ahead := e.own.Level(then) - min(e.own.Level(now), e.own.Level(then))
	most, _ := e.own.Charge(0, now, math.MaxInt, e.own.Burst())
	b := gcra.Bucket(e.value.A)
	b = min(b-min(ahead, b), most)
	var p bucketPlace
	s.findBucket(t, &p, e.print, now)
	s.storeBucket(t, &p, max(e.own.Move(b, now, p.quota), p.bucket()))
}

// Snapshot writes the counts of all keys, as keyed.Windows.Snapshot says.
func (l *Windows[K]) Snapshot(w io.Writer) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	law := binary.LittleEndian.AppendUint64([]byte{windowLaw, 0}, uint64(l.rule.Period))
	switch {
	case l.rule.Sliding:
		law[1] = slidingWindows
	case l.rule.Dated():
		law[1] = datedWindows
	}
	return l.write(w, law, func(t *table[K], s *shard[K], at uint64, es *[]entry) uint8 {
		return copySlots(t, s, at, s.rule.At(t.now()), es)
	})
}

// Restore puts the counts of a Snapshot in place of the present ones.
func (l *Windows[K]) Restore(r io.Reader) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	return l.read(r, 10, func(law []byte, seed siphash.Key, then time.Duration) (*table[K], func(entry), error) {
		from := &pagetable.Rule{Period: time.Duration(binary.LittleEndian.Uint64(law[2:])), Sliding: law[1] == slidingWindows}
		switch {
		case law[0] != windowLaw:
			return nil, nil, errOtherLaw
		case from.Period < MinPeriod || law[1] > datedWindows:
			return nil, nil, errors.New("it is of windows that cannot be")
		case law[1] == datedWindows && l.rule.Dated() && from.Period == l.rule.Period:
			from = l.rule // in another time zone too
		}
		t := l.newTable(seed, l.rule)
		now := t.now()
		return t, func(e entry) {
			c := from.Restored(e.value, then, now)
			t.shard(e.print).restoreCount(t, e.print, now, l.rule.Moved(c, now, from))
		}, nil
	})
}

// restoreCount gives a key of a new table, which is not in use yet, its count.
func (s *shard[K]) restoreCount(t *table[K], print uint64, now time.Duration, c pagetable.Value) {
	by := s.rule.At(now)
	var p place
	s.find(t, &p, print)
	switch {
	case by.Weight(c) == 0:
	case p.at != 0:
		t.layout.Set(p.page, p.at, c)
	default:
		add(t, s, &p, c, by)
	}
}
