// Package state is the format of the snapshots of a node.
//
// A snapshot begins with a text that names the format and its version, and a byte that
// says whether the node has ended. Sections follow: the counts of each rule, and streams of
// encoding/gob with the leases and with the settled grants. Then comes the index, in gob
// too, which has everything else and says where the sections are; the place of the index;
// and a checksum of all from the first section on. So neither a Writer nor a Reader holds
// more than the index and a small part of a section.
//
// A new field of a value in gob, with a zero value that means that it is missing, changes no
// version: older nodes ignore it. Any other change is a new version. One release reads that, and
// writes the version before; the release after it writes it. So a node also reads what the next
// release has written.
package state

import (
	"bufio"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
)

const (
	format  = "weirsrv"
	version = "4" // a digit, or then a letter
	magic   = format + version
	begin   = int64(len(magic) + 1) // of the first section
	// A node that has ended changes nothing after its last snapshot. One that runs may.
	hasEnded, runs = 'E', 'r'
)

// A Section is a part of a snapshot.
type Section struct{ At, Size int64 }

// Counts record the usage of keys under one rule.
type Counts struct {
	Rule      string
	Candidate bool          // of its candidate
	Since     time.Duration // when the rule began to count
	Kind      string        // of its buckets: see quota.Buckets
	Left      time.Duration // wall time at which the rule was missing; 0 if it was in force
	Data      Section
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

// A Snapshot is the index of a snapshot.
type Snapshot struct {
	Wall, Clock time.Duration
	Counts      []Counts
	Limits      []Limits
	Rules       []Rule // of the leases
	Leases      lease.State
	LeasesAt    Section
	Grants      grant.State
	PagesAt     Section
	Own         Section // the buckets of quotas that requests brought; empty in older snapshots
	LeafKeysAt  Section // what leaves have; the zero Section in older snapshots

	Ended bool // set by Open: the node has ended after this snapshot
}

// LeafKeys are some of the keys of which a leaf has an assignment.
type LeafKeys struct {
	Name, Tenant string
	Share        bool
	Until        time.Duration // the end of the leaf's session; 0 if it has none
	Keys         []LeafKey
}

// A LeafKey is a key with the most that a leaf might be using of it.
type LeafKey struct {
	Key                string
	At                 time.Duration // of the last report
	Wants, Rate, Burst float64
}

// A Writer writes a snapshot.
type Writer struct {
	w   io.Writer
	sum hash.Hash32
	out *bufio.Writer // writes to both
	at  int64
}

// NewWriter begins a snapshot; ended says whether it is the last one.
func NewWriter(w io.Writer, ended bool) (*Writer, error) {
	mark := byte(runs)
	if ended {
		mark = hasEnded
	}
	sum := crc32.NewIEEE()
	_, err := w.Write(append([]byte(magic), mark))
	return &Writer{w, sum, bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16), begin}, writing(err)
}

// Section writes a section.
func (w *Writer) Section(write func(io.Writer) error) (Section, error) {
	at := w.at
	err := write(writeFunc(w.write))
	return Section{at, w.at - at}, writing(err)
}

// Leases writes leases.
func (w *Writer) Leases(all iter.Seq[[]lease.SavedLease]) (Section, error) { return encode(w, all) }

// Pages writes pages of settled grants.
func (w *Writer) Pages(all iter.Seq[grant.Page]) (Section, error) { return encode(w, all) }

// LeafKeys writes what leaves have.
func (w *Writer) LeafKeys(all iter.Seq[LeafKeys]) (Section, error) { return encode(w, all) }

// encode writes a section of values.
func encode[T any](w *Writer, all iter.Seq[T]) (Section, error) {
	return w.Section(func(out io.Writer) error {
		values := gob.NewEncoder(out)
		for v := range all {
			if err := values.Encode(v); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close ends the snapshot with its index.
func (w *Writer) Close(s *Snapshot) error { return w.end(s) }

func (w *Writer) end(index any) error {
	at, err := w.Section(func(out io.Writer) error { return gob.NewEncoder(out).Encode(index) })
	if err == nil {
		_, err = w.write(binary.LittleEndian.AppendUint64(nil, uint64(at.At)))
	}
	if err == nil {
		err = w.out.Flush()
	}
	if err == nil {
		_, err = w.w.Write(binary.LittleEndian.AppendUint32(nil, w.sum.Sum32()))
	}
	return writing(err)
}

func (w *Writer) write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	w.at += int64(n)
	return n, err
}

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

func writing(err error) error {
	if err != nil {
		return fmt.Errorf("server: writing a snapshot: %w", err)
	}
	return nil
}

// trailer is the size of the place of the index and of the checksum.
const trailer = 8 + 4

// A VersionError is the error of Open for a snapshot of a version that this node does not read. It
// is also an ErrInvalid.
type VersionError struct {
	Version string // of the snapshot
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("it has version %q of the format, and this program reads version %q", e.Version, version)
}

// ErrInvalid is the error of Open for what is not a whole snapshot of this version.
var ErrInvalid = errors.New("it is not a valid snapshot")

var errContent = errors.New("its content is not valid")

// A Source holds a snapshot, as a file does.
type Source interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// A File is a file as a Source.
type File struct {
	*os.File
	size int64
}

// OpenFile opens a file.
func OpenFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f, info.Size()}, nil
}

// Size returns the size that the file had when it was opened.
func (f *File) Size() int64 { return f.size }

// A Reader reads a snapshot.
type Reader struct {
	Snapshot
	Source
}

// Open checks a whole snapshot. The error is ErrInvalid, or that of reading the source.
func Open(src Source) (*Reader, error) {
	r, err := open(src)
	switch {
	case err == nil:
		return r, nil
	case !errors.As(err, new(*fs.PathError)):
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil, fmt.Errorf("server: reading a snapshot: %w", err)
}

func open(src Source) (*Reader, error) {
	if err := verify(src); err != nil {
		return nil, err
	}
	r, err := Index(src)
	if err != nil {
		return nil, err
	}
	if !r.valid() {
		return nil, errContent
	}
	for leases, err := range r.Held() {
		if err != nil || !r.validLeases(leases) {
			return nil, errors.Join(errContent, err)
		}
	}
	for p, err := range r.Pages() {
		if err != nil || !p.Valid() {
			return nil, errors.Join(errContent, err)
		}
	}
	for l, err := range r.LeafKeys() {
		if err != nil || !l.valid() {
			return nil, errors.Join(errContent, err)
		}
	}
	return r, nil
}

// verify checks the head and the checksum.
func verify(src Source) error {
	head := make([]byte, min(begin, src.Size()))
	if _, err := src.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	text := string(head[:min(len(head), len(magic))])
	switch {
	case len(text) == len(magic) && format+"0" <= text && text <= format+"z" && text != magic:
		return &VersionError{text[len(format):]}
	case text != magic[:len(text)]:
		return fmt.Errorf("it begins with %q: it is not a snapshot", text)
	}
	all := src.Size() - begin - 4
	if all < trailer-4 {
		return io.ErrUnexpectedEOF
	}
	if mark := head[len(magic)]; mark != hasEnded && mark != runs {
		return errContent
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(src, begin, all)); err != nil {
		return err
	}
	var want [4]byte
	if _, err := src.ReadAt(want[:], begin+all); err != nil && err != io.EOF {
		return err
	}
	if got, want := sum.Sum32(), binary.LittleEndian.Uint32(want[:]); got != want {
		return fmt.Errorf("its checksum is %08x, want %08x: it is truncated or was changed", got, want)
	}
	return nil
}

// Index reads the index of a snapshot and checks nothing.
func Index(src Source) (*Reader, error) {
	var b [8]byte
	end := src.Size() - trailer
	if _, err := src.ReadAt(b[:], end); err != nil {
		return nil, err
	}
	at := int64(binary.LittleEndian.Uint64(b[:]))
	if at < begin || at > end {
		return nil, errContent
	}
	r := &Reader{Source: src}
	rest := bufio.NewReader(io.NewSectionReader(src, at, end-at))
	if err := gob.NewDecoder(rest).Decode(&r.Snapshot); err != nil {
		return nil, fmt.Errorf("%w: %w", errContent, err)
	}
	var mark [1]byte
	_, err := src.ReadAt(mark[:], begin-1)
	r.Ended = mark[0] == hasEnded
	if _, more := rest.Peek(1); err == nil && more != io.EOF || !r.within(begin, at) {
		err = errors.Join(errContent, err)
	}
	return r, err
}

// within reports whether all sections are between two places.
func (s *Snapshot) within(from, to int64) bool {
	all := []Section{s.LeasesAt, s.PagesAt}
	for _, added := range []Section{s.Own, s.LeafKeysAt} {
		if added != (Section{}) {
			all = append(all, added)
		}
	}
	for i := range s.Counts {
		all = append(all, s.Counts[i].Data)
	}
	return !slices.ContainsFunc(all, func(s Section) bool { return s.At < from || s.Size < 0 || s.Size > to-s.At })
}

// Section returns the content of a section.
func (r *Reader) Section(s Section) *io.SectionReader {
	return io.NewSectionReader(r.Source, s.At, s.Size)
}

// Held reads the leases, some at a time.
func (r *Reader) Held() iter.Seq2[[]lease.SavedLease, error] {
	return decode[[]lease.SavedLease](r.Section(r.LeasesAt))
}

// Pages reads the pages of settled grants.
func (r *Reader) Pages() iter.Seq2[grant.Page, error] {
	return decode[grant.Page](r.Section(r.PagesAt))
}

// LeafKeys reads what leaves have, some keys at a time.
func (r *Reader) LeafKeys() iter.Seq2[LeafKeys, error] {
	return decode[LeafKeys](r.Section(r.LeafKeysAt))
}

// decode reads the values of a section.
func decode[T any](section io.Reader) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for values := gob.NewDecoder(section); ; {
			var v T
			err := values.Decode(&v)
			if err == io.EOF || !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// maxInstant bounds instants. A node resumes at rules.MaxSpan at the latest, and runs.
const maxInstant = 2 * rules.MaxSpan

// valid reports whether all values are such as a node has.
func (s *Snapshot) valid() bool {
	instants := []time.Duration{s.Clock}
	for i := range s.Counts {
		instants = append(instants, s.Counts[i].Since)
	}
	times := []time.Duration{}
	for _, r := range s.Rules {
		times = append(times, r.Longest)
	}
	numbers := []int{}
	for _, l := range s.Limits {
		for _, found := range l.Found {
			times, numbers = append(times, found.Usual), append(numbers, found.Limit)
		}
	}
	return s.Wall >= 0 && s.Grants.Valid() && s.Leases.Token <= math.MaxInt64/2 && validTimes(instants, maxInstant) && validTimes(times, rules.MaxSpan) && validNumbers(numbers)
}

func (s *Snapshot) validLeases(all []lease.SavedLease) bool {
	return !slices.ContainsFunc(all, func(l lease.SavedLease) bool {
		unknown := slices.ContainsFunc(l.Under, func(place int) bool { return place < 0 || place >= len(s.Rules) })
		return unknown || l.Terms.TTL <= 0 || l.Terms.TTL > l.Terms.MaxTTL || l.Token > math.MaxInt64 ||
			!validTimes([]time.Duration{l.Until}, maxInstant) || !validTimes([]time.Duration{l.Terms.MaxTTL}, rules.MaxSpan) || !validNumbers([]int{l.N - 1})
	})
}

func (l *LeafKeys) valid() bool {
	return l.Name != "" && validTimes([]time.Duration{l.Until}, maxInstant) && !slices.ContainsFunc(l.Keys, func(k LeafKey) bool {
		return !validTimes([]time.Duration{k.At}, maxInstant) || !(min(k.Wants, k.Rate, k.Burst) >= 0) || math.IsInf(max(k.Wants, k.Rate, k.Burst), 1)
	})
}

func validTimes(all []time.Duration, most time.Duration) bool {
	return !slices.ContainsFunc(all, func(d time.Duration) bool { return d < 0 || d > most })
}

func validNumbers(all []int) bool {
	return !slices.ContainsFunc(all, func(n int) bool { return n < 0 || n > math.MaxInt32 })
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
