package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/internal/config"
)

// snapshotMagic begins a snapshot: what it is, and the version of the format. The
// wall clock and the Server's clock follow, in nanoseconds, then records, and a
// checksum of all.
const snapshotMagic = "weirsrv1"

// What a record is of. It has the names of rules and a body.
const (
	recordEnd    = iota
	recordCounts // of one rule; empty if it has them in common with one before
	recordTrial  // of its candidate
	recordLimits // what Auto has found, for one rule
	recordLeases // of all rules that it names
	recordGrants
)

// Snapshot writes what must outlive the process, for Restore in the next one:
// what each key has had, leases, the limits that Auto has found, and the secret of
// grants. Counters, the keys of Top, and those who wait are not in it. The Server
// goes on meanwhile: what is decided during the call may or may not be in it. It
// takes as much memory as the counts of a rule.
//
// Who can read a snapshot can return leases, settle grants, and make keys collide.
func (s *Server) Snapshot(w io.Writer) error {
	sum := crc32.NewIEEE()
	out := recorder{w: io.MultiWriter(w, sum)}
	head := append([]byte(snapshotMagic), appendTime(nil, time.Duration(time.Now().UnixNano()))...)
	out.write(appendTime(head, s.now()))
	set := s.rules.Load()
	seen := map[*keyedtable.Windows[string]]bool{}
	for _, r := range set.inForce() {
		for _, kept := range [...]struct {
			kind    byte
			buckets buckets
			quota   *config.Quota
		}{{recordCounts, r.live.buckets, &r.Quota}, {recordTrial, r.live.trial, r.Candidate}} {
			how, state := keeps(kept.buckets, kept.quota)
			if state == nil {
				continue
			}
			body := bytes.NewBuffer(appendText(appendTime(nil, r.live.since), how))
			if !repeated(kept.buckets, seen) {
				if err := state.Snapshot(body); err != nil {
					return fmt.Errorf("server: rule %q: %w", r.Name, err)
				}
			}
			out.record(kept.kind, []string{set.nameOf(r)}, body.Bytes())
		}
		if limits := r.live.gates.append(nil); len(limits) > 0 {
			out.record(recordLimits, []string{set.nameOf(r)}, limits)
		}
	}
	names, body := s.leases.append(set)
	out.record(recordLeases, names, body)
	out.record(recordGrants, nil, s.grants.append(nil))
	out.write([]byte{recordEnd})
	out.write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	if out.err != nil {
		return fmt.Errorf("server: writing a snapshot: %w", out.err)
	}
	return nil
}

// SaveFile writes a Snapshot to a file that only its owner can read, in place of
// what is there: if it fails, that stays as it is. It is written beside it, with the
// ending .new: there must be one call at a time.
func (s *Server) SaveFile(path string) (err error) {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := errors.Join(f.Chmod(0o600), s.Snapshot(f)); err != nil { // one may have been left there
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close()) // so that the new name outlives a power cut, too
}

// recorder writes records, and keeps the first error.
type recorder struct {
	w   io.Writer
	err error
}

func (r *recorder) write(b []byte) {
	if r.err == nil {
		_, r.err = r.w.Write(b)
	}
}

func (r *recorder) record(kind byte, names []string, body []byte) {
	head := binary.AppendUvarint([]byte{kind}, uint64(len(names)))
	for _, name := range names {
		head = appendText(head, name)
	}
	r.write(binary.AppendUvarint(head, uint64(len(body))))
	r.write(body)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendTime appends what is not negative, or counts as zero.
func appendTime(b []byte, d time.Duration) []byte { return binary.AppendUvarint(b, uint64(max(d, 0))) }

// A keeper is counts that can be kept. Restore lets the time since Snapshot count,
// and changes nothing if there is an error.
type keeper interface {
	Snapshot(w io.Writer) error
	Restore(r io.Reader) error
}

// keeps returns how buckets are counted, and what of them can be kept; nil if
// nothing can.
func keeps(b buckets, q *config.Quota) (how string, state keeper) {
	switch b := b.(type) {
	case many:
		return "keyed", b.l
	case single:
		return "single", lone{b.l}
	case *counted:
		return string(q.Algorithm), b.l
	}
	return "", nil
}

// lone is the tokens of the one bucket of a rule.
type lone struct{ *rate.Limiter }

func (l lone) Snapshot(w io.Writer) error {
	b := appendTime(nil, time.Duration(time.Now().UnixNano()))
	_, err := w.Write(binary.LittleEndian.AppendUint64(b, math.Float64bits(l.Tokens())))
	return err
}

// Restore takes from a full bucket what was lacking, so long ago that what has
// come back since is what has: so parts of a token count.
func (l lone) Restore(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	d := decoder{b: b}
	passed := passedSince(time.Duration(d.uint(math.MaxInt64)))
	lack := float64(l.Burst()) - math.Float64frombits(d.fixed64())
	if d.bad || len(d.b) > 0 || !(lack <= 1<<53) {
		return errSpoilt
	}
	q := l.Quota()
	if lack -= q.Rate() * passed.Seconds(); lack <= 0 || q.Unlimited() {
		return nil
	}
	n, ago := math.Ceil(lack), time.Duration(0)
	if n > lack {
		ago = time.Duration((n - lack) / q.Rate() * float64(time.Second))
	}
	taken := min(int(n), l.Burst())
	l.TakeAt(time.Now().Add(-ago), taken)
	l.Settle(taken, int(n)) // what is beyond the burst is debt
	return nil
}

// passedSince returns how long ago it was so late by the wall clock. A clock that
// was set back does not count.
func passedSince(wall time.Duration) time.Duration {
	return min(max(time.Duration(time.Now().UnixNano())-wall, 0), maxSpan)
}

// maxSpan is the maxSpan time that a snapshot may speak of, so that sums of a few
// do not overflow.
const maxSpan = math.MaxInt64 / 8

// append appends the limits that Auto has found.
func (g *gates) append(b []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.terms == nil || g.terms.Limit != config.Auto {
		return b
	}
	for bucket, d := range g.doors {
		b = binary.AppendUvarint(appendText(b, bucket), uint64(d.limiter.Stats().Limit))
		b = appendTime(b, d.lasts)
	}
	return b
}

// append returns all leases, and the names of the rules that they are under.
func (ls *leases) append(set *ruleset) (names []string, b []byte) {
	number := map[*gates]uint64{}
	for i, r := range set.inForce() {
		number[r.live.gates] = uint64(i)
		names = append(names, set.nameOf(r))
	}
	// All but until stands still once a lease is held, so the lock is held to copy
	// that alone.
	ls.mu.Lock()
	b = binary.AppendUvarint(b, ls.token)
	held := make([]*lease, 0, len(ls.of))
	until := make([]time.Duration, 0, len(ls.of))
	for _, l := range ls.of {
		held, until = append(held, l), append(until, l.until)
	}
	ls.mu.Unlock()
	for i, l := range held {
		b = append(b, l.id[:]...)
		b = appendText(b, l.key)
		b = binary.AppendUvarint(b, uint64(l.n))
		b = binary.AppendUvarint(b, l.token)
		for _, d := range [...]time.Duration{until[i], l.ttl, l.most} {
			b = appendTime(b, d)
		}
		var under []byte
		n := uint64(0)
		for j := range l.held { // not the values: a permit is released meanwhile
			if i, ok := number[l.held[j].door.gates]; ok {
				under = binary.AppendUvarint(under, i)
				n++
			}
		}
		b = append(binary.AppendUvarint(b, n), under...)
	}
	return names, b
}

// append appends the secret, and what is settled.
func (g *grants) append(b []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range [...]uint64{g.key.K0, g.key.K1, g.seq.Load()} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = appendTime(appendTime(b, g.turned), g.floor)
	for _, settled := range g.settled {
		b = binary.AppendUvarint(b, uint64(len(settled)))
		for stamp := range settled {
			b = binary.LittleEndian.AppendUint64(b, stamp)
		}
	}
	return b
}
