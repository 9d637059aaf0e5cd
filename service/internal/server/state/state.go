// Package state is the format of the snapshots of a node.
//
// A snapshot begins with a text that names the format and its version, and a byte that
// says whether the node has ended. Records follow in encoding/gob, one for the counts of
// each rule and one for everything else, and at the end a checksum of all but that byte.
package state

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/ruleset"
)

const (
	magic = "weirsrv3"
	// A node that has ended changes nothing after its last snapshot. One that runs may.
	hasEnded, runs = 'E', 'r'
)

// Counts record the usage of keys under one rule.
type Counts struct {
	Rule      string
	Candidate bool          // of its candidate
	Since     time.Duration // when the rule began to count
	Kind      string        // of its buckets: see quota.Buckets
	Left      time.Duration // wall time at which the rule was missing; 0 if it was in force
	Data      []byte
}

// Limits are the limits that a rule has found.
type Limits struct {
	Rule  string
	Left  time.Duration // as in Counts
	Found []lease.SavedLimit
}

// A Rule is a rule that leases are held under.
type Rule struct {
	Name    string
	Per     config.Per
	Longest time.Duration // the longest time to live of its leases
}

// A Snapshot is a decoded snapshot.
type Snapshot struct {
	Wall, Clock time.Duration
	Counts      []Counts
	Limits      []Limits
	Rules       []Rule // of Leases
	Leases      lease.State
	Grants      grant.State

	Ended bool // set by Read: the node has ended after this snapshot
}

// A record is the counts of a rule or, at the end, a Snapshot without Counts.
type record struct {
	Counts *Counts
	Last   *Snapshot
}

// A Writer writes a snapshot. Close returns the first error.
type Writer struct {
	w       io.Writer
	sum     hash.Hash32
	records *gob.Encoder
	err     error
}

// NewWriter begins a snapshot; ended says whether it is the last one.
func NewWriter(w io.Writer, ended bool) *Writer {
	mark := byte(runs)
	if ended {
		mark = hasEnded
	}
	_, err := w.Write(append([]byte(magic), mark))
	sum := crc32.NewIEEE()
	all := io.MultiWriter(w, sum)
	return &Writer{w, sum, gob.NewEncoder(all), err}
}

// Counts writes the counts of a rule.
func (w *Writer) Counts(c *Counts) { w.write(record{Counts: c}) }

// Close ends the snapshot with everything but the Counts.
func (w *Writer) Close(s *Snapshot) error {
	w.write(record{Last: s})
	if w.err == nil {
		_, w.err = w.w.Write(binary.LittleEndian.AppendUint32(nil, w.sum.Sum32()))
	}
	if w.err != nil {
		return fmt.Errorf("server: writing a snapshot: %w", w.err)
	}
	return nil
}

func (w *Writer) write(r record) {
	if w.err == nil {
		w.err = w.records.Encode(r)
	}
}

var errInvalid = errors.New("its content is not valid")

// Read reads what a Writer has written.
func Read(r io.Reader) (*Snapshot, error) {
	b, err := io.ReadAll(r)
	var s *Snapshot
	if err == nil {
		s, err = decode(b)
	}
	if err != nil {
		return nil, fmt.Errorf("server: reading a snapshot: %w", err)
	}
	return s, nil
}

func decode(b []byte) (*Snapshot, error) {
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return nil, fmt.Errorf("it begins with %q: it is not a snapshot, or has another version", b[:n])
	}
	if len(b) < len(magic)+1+4 {
		return nil, io.ErrUnexpectedEOF
	}
	mark, b := b[len(magic)], b[len(magic)+1:]
	if mark != hasEnded && mark != runs {
		return nil, errInvalid
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.ChecksumIEEE(b); got != sum {
		return nil, fmt.Errorf("its checksum is %08x, want %08x: it is truncated or was changed", got, sum)
	}
	in := bytes.NewReader(b)
	records := gob.NewDecoder(in)
	var r record
	var counts []Counts
	for ; r.Last == nil; r.Counts = nil {
		if err := records.Decode(&r); err != nil {
			return nil, fmt.Errorf("%w: %w", errInvalid, err)
		}
		if r.Counts != nil {
			counts = append(counts, *r.Counts)
		}
	}
	r.Last.Counts, r.Last.Ended = counts, mark == hasEnded
	if in.Len() > 0 || !r.Last.valid() {
		return nil, errInvalid
	}
	return r.Last, nil
}

// valid reports whether all values are such as a node has.
func (s *Snapshot) valid() bool {
	times := []time.Duration{s.Clock}
	for i := range s.Counts {
		times = append(times, s.Counts[i].Since)
	}
	for _, r := range s.Rules {
		times = append(times, r.Longest)
	}
	numbers := []int{}
	for _, l := range s.Limits {
		for _, found := range l.Found {
			times, numbers = append(times, found.Usual), append(numbers, found.Limit)
		}
	}
	for i := range s.Leases.Leases {
		l := &s.Leases.Leases[i]
		times, numbers = append(times, l.Until, l.Terms.MaxTTL), append(numbers, l.N-1)
		unknown := slices.ContainsFunc(l.Under, func(place int) bool { return place < 0 || place >= len(s.Rules) })
		if unknown || l.Terms.TTL <= 0 || l.Terms.TTL > l.Terms.MaxTTL || l.Token > math.MaxInt64 {
			return false
		}
	}
	return s.Wall >= 0 && s.Grants.Valid() && s.Leases.Token <= math.MaxInt64/2 &&
		!slices.ContainsFunc(times, func(d time.Duration) bool { return d < 0 || d > ruleset.MaxSpan }) &&
		!slices.ContainsFunc(numbers, func(n int) bool { return n < 0 || n > math.MaxInt32 })
}

// WriteFile writes a file that only its owner can read, with what write writes, in
// place of the file there. If it fails, that stays unchanged. It writes a file
// beside it, with the suffix .new: there must be one call at a time.
func WriteFile(path string, write func(io.Writer) error) (err error) {
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
	if err := errors.Join(f.Chmod(0o600), write(f)); err != nil { // an older file may have another mode
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
	return errors.Join(d.Sync(), d.Close()) // so that the new name survives a power failure
}

// MarkRunning notes in a snapshot that a node runs again, which may change what the
// snapshot says. It needs no space on the disk.
func MarkRunning(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{runs}, int64(len(magic)))
	return errors.Join(err, f.Sync(), f.Close())
}
