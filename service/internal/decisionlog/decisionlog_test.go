package decisionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
)

var epoch = time.Unix(1_700_000_000, 5)

const seps = "|=:/"

// labels returns keys as a file has them, with the segments that have a name.
func labels(all []Decision, names map[uint64]string) (keys []string) {
	for _, d := range all {
		var b strings.Builder
		for _, part := range d.Key.Parts {
			if part.Text != "" {
				b.WriteString(part.Text)
			} else {
				fmt.Fprintf(&b, "<%s>", names[part.Print])
			}
		}
		keys = append(keys, b.String())
	}
	return keys
}

func readAll(in io.Reader) (*Reader, []Decision, error) {
	r, err := NewReader(in)
	if err != nil {
		return nil, nil, err
	}
	var all []Decision
	for {
		d, err := r.Read()
		if err != nil {
			return r, all, err
		}
		all = append(all, d)
	}
}

// A scripted decider denies requests for keys that begin with no.
type scripted struct {
	decider.Decider
	now time.Duration
}

var lower, upper = &decider.RuleRef{Name: "lower"}, &decider.RuleRef{Name: "upper"}

func (s *scripted) Decide(_ context.Context, req *decider.Request, v *decider.Verdict) error {
	*v = decider.Verdict{OK: true, At: s.now, Rule: lower, Answers: v.Answers[:0]}
	switch {
	case strings.HasPrefix(req.Key, "error"):
		return decider.ErrNoRate
	case strings.HasPrefix(req.Key, "no"):
		v.Answers = append(v.Answers, decider.Answer{Rule: upper})
		v.Deny(weir.OverRate, time.Second)
	}
	return nil
}

func (s *scripted) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return s.Decide(ctx, req, v)
}

func (s *scripted) Descriptors(ctx context.Context, reqs []decider.Request, _ bool, verdicts []decider.Verdict) (bool, error) {
	for i := range reqs {
		_ = s.Decide(ctx, &reqs[i], &verdicts[i])
	}
	return false, nil
}

func (s *scripted) Settle(context.Context, string, string, int) (decider.Settlement, error) {
	return decider.Settlement{Was: 5}, nil
}

func (s *scripted) Acquire(context.Context, decider.LeaseRequest) (decider.Lease, error) {
	return decider.Lease{}, nil
}

func (s *scripted) Exchange(context.Context, *decider.LeafExchange, *decider.LeafAnswer) error {
	return nil
}

// What is decided is in the file, with what kind of request it was.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		s := &scripted{now: 5 * time.Second}
		rec := New()
		rec.Follow(func() time.Duration { return s.now })
		time.Sleep(2 * time.Second)
		s.now += 2 * time.Second
		d, ctx := Record(s, rec), t.Context()
		var v decider.Verdict
		testrig.Must(t, d.Decide(ctx, &decider.Request{Key: "user:42", N: 3, WantID: true}, &v))
		testrig.Must(t, d.Decide(ctx, &decider.Request{Key: "no:42", N: 1, Quota: &decider.Quota{Count: 2, Period: time.Second}}, &v))
		if err := d.Decide(ctx, &decider.Request{Key: "error"}, &v); err == nil {
			t.Error("an error is lost")
		}
		until, cancel := context.WithTimeout(ctx, 128*time.Nanosecond*10)
		defer cancel()
		testrig.Must(t, d.Wait(until, &decider.Request{Key: "user:42", N: 1, Queue: 0, OwnQueue: true}, &v))
		verdicts := make([]decider.Verdict, 2)
		_, err := d.Descriptors(ctx, []decider.Request{{Key: "edge|a=b", N: 1}, {Key: "no|a=b%7C", N: 1}}, true, verdicts)
		testrig.Must(t, err)
		id := grant.NewLedger().AppendGrantID(nil, decider.Grant{N: 5, At: 6 * time.Second}, "user:42")
		_, err = d.Settle(ctx, "user:42", string(id), 2)
		testrig.Must(t, err)
		_, _ = d.Acquire(ctx, decider.LeaseRequest{})
		x := new(decider.LeafExchange)
		testrig.Must(t, d.Exchange(ctx, x, nil))

		var file bytes.Buffer
		salt := NewSalt()
		w := NewWriter(&file, rec.Epoch(), Info{Separators: seps, SaltID: salt.ID()}, salt)
		testrig.Must(t, rec.Drain(w))
		r, all, err := readAll(&file)
		if err != io.EOF || !r.Epoch().Equal(rec.Epoch()) {
			t.Fatal(err)
		}
		if bytes.Contains(file.Bytes(), []byte("user")) {
			t.Error("a key is in the file")
		}
		names := map[uint64]string{}
		for _, name := range []string{"user", "42", "no", "edge", "a", "b"} {
			names[NewPrinter(salt).Print(name)] = name
		}
		slices.SortStableFunc(all, func(a, b Decision) int { return int(a.Group) - int(b.Group) })
		if got, want := labels(all, names), []string{"<user>:<42>", "<no>:<42>", "<user>:<42>", "<edge>|<a>=<b>", "<no>|<a>=<b>%7C", "<user>:<42>"}; !slices.Equal(got, want) {
			t.Errorf("%q: want %q", got, want)
		}
		zero := 0
		for i, want := range []Decision{
			{N: 3, Rule: "lower", Flags: WantID},
			{N: 1, Rule: "upper", Denied: true, Reason: weir.OverRate, Terms: &Terms{Quota: decider.Quota{Count: 2, Period: time.Second}}},
			{N: 1, Rule: "lower", Flags: Waits, MaxWait: 1280, Terms: &Terms{Queue: &zero}},
			{N: 1, Rule: "lower", Flags: Together | Descriptors, Group: 1},
			{N: 1, Rule: "upper", Denied: true, Reason: weir.OverRate, Flags: Together | Descriptors, Group: 1},
			{N: 2, Flags: Settled, Group: 5, MaxWait: time.Second.Truncate(1024) + 1024},
		} {
			got := all[i]
			if want.At, want.Key = 2*time.Second, got.Key; !reflect.DeepEqual(got, want) {
				t.Errorf("%d: %+v: want %+v", i, got, want)
			}
		}
		if c := r.Counters(); c != (Counters{Failed: 1, Leases: 1}) {
			t.Errorf("%+v", c)
		}
	})
}

// written returns a file of n decisions for about half as many keys, and where its blocks end.
func written(n int) (file []byte) {
	var b bytes.Buffer
	rec := New()
	d := Record(&scripted{}, rec)
	for i := range n {
		_ = d.Decide(context.Background(), &decider.Request{Key: fmt.Sprintf("user:%d", i/2), N: i}, new(decider.Verdict))
	}
	w := NewWriter(&b, epoch, Info{Separators: seps}, NewSalt())
	_ = rec.Drain(w)
	return b.Bytes()
}

// A file that is cut off is read up to the last whole block, and one that is damaged up to there.
func TestCutAndDamage(t *testing.T) {
	whole := written(3000)
	_, want, err := readAll(iotest.OneByteReader(bytes.NewReader(whole)))
	if err != io.EOF || len(want) != 3000 {
		t.Fatal(len(want), err)
	}
	for at := 0; at < len(whole); at += 1 + at/50 {
		r, got, err := readAll(bytes.NewReader(whole[:at]))
		if err != ErrCut && (r == nil || err != io.EOF) || len(got) > len(want) {
			t.Fatalf("cut at %d: %d decisions, %v", at, len(got), err)
		}
		bad := slices.Clone(whole)
		bad[at] ^= 4
		if _, got, err = readAll(bytes.NewReader(bad)); err == nil || err == io.EOF || len(got) > len(want) {
			t.Fatalf("damage at %d: %d decisions, %v", at, len(got), err)
		}
		for i := range got {
			if got[i].N != want[i].N || !reflect.DeepEqual(got[i].Key, want[i].Key) {
				t.Fatalf("damage at %d: %+v: want %+v", at, got[i], want[i])
			}
		}
	}
	for name, text := range map[string]string{"another version": "weirdec\x02", "no file of decisions": "weirrec\x01", "nothing": ""} {
		if _, err := NewReader(strings.NewReader(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// Whatever a file has, the Reader ends.
func FuzzReader(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		file := written(n)
		f.Add(file)
		f.Add(file[:len(file)-3])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if r, got, err := readAll(bytes.NewReader(file)); r != nil && (err == nil || len(got)*recordSize > len(file)) {
			t.Fatalf("%d decisions of %d bytes, %v", len(got), len(file), err)
		}
	})
}

// The parts of a key are read as they were written.
func FuzzKey(f *testing.F) {
	f.Add("user:42")
	f.Add("edge|a=%7C|b=" + strings.Repeat(":", 600))
	f.Fuzz(func(t *testing.T, key string) {
		p := NewPrinter(NewSalt())
		parts, ok := readKey(appendKey(nil, key, seps, p))
		if !ok && key != "" {
			t.Fatalf("%q is not read", key)
		}
		i := 0
		for text, segment := range match.Split(key, seps) {
			want := Part{Part: match.Part{Text: text}}
			if segment {
				want = Part{match.Part{Kinds: match.KindsOf(text)}, p.Print(text)}
			}
			if parts[i] != want {
				t.Fatalf("%q: part %d: %+v: want %+v", key, i, parts[i], want)
			}
			i++
		}
		if i != len(parts) {
			t.Fatalf("%q: %d parts: want %d", key, len(parts), i)
		}
	})
}

// When nothing is written, memory is bounded, and what is lost is counted. What came first is kept.
func TestLost(t *testing.T) {
	rec := New()
	d := Record(&scripted{}, rec)
	const n = maxBlocks*blockEntries + 1000
	for i := range n {
		testrig.Must(t, d.Decide(t.Context(), &decider.Request{Key: "a", N: i}, new(decider.Verdict)))
	}
	var file bytes.Buffer
	testrig.Must(t, rec.Drain(NewWriter(&file, epoch, Info{}, NewSalt())))
	r, all, err := readAll(&file)
	if err != io.EOF || r.Counters().Lost == 0 || uint64(len(all))+r.Counters().Lost != n || rec.Recorded() != n {
		t.Errorf("%d read, %d lost of %d: %v", len(all), r.Counters().Lost, n, err)
	}
	testrig.Must(t, d.Decide(t.Context(), &decider.Request{Key: "a", N: 1}, new(decider.Verdict)))
	if w := NewWriter(failing{}, epoch, Info{}, NewSalt()); rec.Drain(w) == nil || rec.Counters().Lost != r.Counters().Lost+1 {
		t.Errorf("%+v after a failed write", rec.Counters())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
func (failing) Close() error              { return nil }

// Decisions of many goroutines are all in the files, while these are rotated.
func TestConcurrent(t *testing.T) {
	rec := New()
	d := Record(&scripted{}, rec)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 5000 {
				_ = d.Decide(context.Background(), &decider.Request{Key: fmt.Sprintf("user%d:%d", g, i%100), N: 1 + i}, new(decider.Verdict))
			}
		})
	}
	stop, total := make(chan struct{}), 0
	go func() { all.Wait(); close(stop) }()
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		var file bytes.Buffer
		testrig.Must(t, rec.Drain(NewWriter(&file, epoch, Info{Separators: seps}, NewSalt())))
		_, got, err := readAll(&file)
		if err != io.EOF {
			t.Fatal(err)
		}
		for _, d := range got {
			if d.Key == nil || len(d.Key.Parts) != 3 {
				t.Fatalf("%+v", d)
			}
		}
		total += len(got)
	}
	if total != 20000 {
		t.Errorf("%d decisions", total)
	}
}

// The files of a directory are rotated, and bounded; each can be read by itself.
func TestDirectory(t *testing.T) {
	rec, dir := New(), filepath.Join(t.TempDir(), "new")
	const most = 400_000
	d, err := Open(Config{Path: dir, MaxBytes: most, Salt: NewSalt(), Info: Info{Separators: seps}}, rec)
	testrig.Must(t, err)
	to := Record(&scripted{}, rec)
	for i := range 40_000 {
		testrig.Must(t, to.Decide(t.Context(), &decider.Request{Key: fmt.Sprintf("user:%d", i%10), N: i}, new(decider.Verdict)))
		if i%500 == 0 {
			d.drain()
		}
	}
	d.drain()
	testrig.Must(t, d.end())
	files, err := Files(dir)
	testrig.Must(t, err)
	var total int64
	var numbers []int
	for _, path := range files {
		data, err := os.ReadFile(path)
		testrig.Must(t, err)
		total += int64(len(data))
		_, all, err := readAll(bytes.NewReader(data))
		if err != io.EOF || len(all) == 0 {
			t.Fatal(path, err)
		}
		for _, d := range all {
			if d.Key == nil {
				t.Fatalf("%s: %+v", path, d)
			}
			numbers = append(numbers, d.N)
		}
	}
	slices.Sort(numbers)
	if first, last := numbers[0], numbers[len(numbers)-1]; last != 39_999 || len(slices.Compact(numbers)) != last-first+1 {
		t.Errorf("%d decisions of %d to %d", len(numbers), first, last)
	}
	if total > most || total < most/2 || len(files) < 5 || d.Bytes() < total {
		t.Errorf("%d files of %d bytes (%d)", len(files), total, d.Bytes())
	}
}

// A disk that is full loses decisions, which are counted. Recording goes on in another file when there is room again.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, dir := New(), t.TempDir()
		var full atomic.Bool
		var said []error
		d, err := Open(Config{Path: dir, MaxBytes: 1 << 20, Salt: NewSalt(), OnError: func(err error) { said = append(said, err) }, create: func(path string) (io.WriteCloser, error) {
			f, err := os.Create(path)
			return &disk{f, &full}, err
		}}, rec)
		testrig.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { d.Run(ctx); close(ended) }()
		to := Record(&scripted{}, rec)
		for i := range 60 {
			full.Store(i >= 10 && i < 40)
			testrig.Must(t, to.Decide(t.Context(), &decider.Request{Key: "a", N: i}, new(decider.Verdict)))
			time.Sleep(drainEvery)
			synctest.Wait()
		}
		cancel()
		<-ended
		files, err := Files(dir)
		testrig.Must(t, err)
		n := 0
		for _, path := range files {
			f, err := os.Open(path)
			testrig.Must(t, err)
			_, all, _ := readAll(f)
			n += len(all)
			f.Close()
		}
		if lost := int(rec.Counters().Lost); n+lost != 60 || lost < 1 || lost > 10 || len(said) != 2 || said[0] == nil || said[1] != nil || d.Failures() < 2 {
			t.Errorf("%d in %d files, %d lost, %v, %d failures", n, len(files), lost, said, d.Failures())
		}
	})
}

type disk struct {
	io.WriteCloser
	full *atomic.Bool
}

func (d *disk) Write(b []byte) (int, error) {
	if d.full.Load() {
		return 0, errors.New("no space left on device")
	}
	return d.WriteCloser.Write(b)
}

// A directory that cannot be used is an error at the start.
func TestUnusable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	testrig.Must(t, os.WriteFile(path, nil, 0o600))
	if _, err := Open(Config{Path: path, MaxBytes: 1}, New()); err == nil {
		t.Error("a file is taken for a directory")
	}
}

// A salt of a file is made once, and told by its ID alone.
func TestSalt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "salt")
	if _, err := LoadSalt(path, false); err == nil {
		t.Error("a salt without a file")
	}
	a, err := LoadSalt(path, true)
	testrig.Must(t, err)
	b, err := LoadSalt(path, true)
	testrig.Must(t, err)
	if info, _ := os.Stat(path); a.ID() != b.ID() || info.Mode().Perm() != 0o600 || a.ID() == NewSalt().ID() {
		t.Errorf("%s, %s, %v", a.ID(), b.ID(), info.Mode())
	}
	other := NewSalt()
	info := Info{SaltID: a.ID()}
	if _, err := SaltOf(info, &b); err != nil {
		t.Error(err)
	}
	if _, err := SaltOf(info, &other); err == nil {
		t.Error("another salt is taken")
	}
	if _, err := SaltOf(info, nil); err != ErrNoSalt {
		t.Error(err)
	}
	testrig.Must(t, os.WriteFile(path, []byte("short"), 0o600))
	if _, err := LoadSalt(path, true); err == nil {
		t.Error("a short salt is taken")
	}
}

// Instances that begin at once have the same salt, and none reads a file that is not complete.
func TestSaltOfManyInstances(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		path := filepath.Join(dir, "salt")
		var all sync.WaitGroup
		var ids [8]string
		for i := range ids {
			all.Go(func() {
				s, err := LoadSalt(path, true)
				if err != nil {
					t.Error(err)
				}
				ids[i] = s.ID()
			})
		}
		all.Wait()
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || len(slices.Compact(ids[:])) != 1 {
			t.Fatalf("%v, %v, %v", ids, files, err)
		}
	}
}

func TestCheckSeparators(t *testing.T) {
	for text, ok := range map[string]bool{"": true, ":/.-_": true, "a": false, "%": false, "é": false, "*": false, "\n": false} {
		if err := CheckSeparators(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// More keys than a Writer remembers are in the file as often as it forgets them.
func TestManyKeys(t *testing.T) {
	rec := New()
	d := Record(&scripted{}, rec)
	var file bytes.Buffer
	salt := NewSalt()
	w := NewWriter(&file, epoch, Info{Separators: seps}, salt)
	const n = 2*maxKeys + 5000
	key := func(i int) string { return fmt.Sprint(i * 7919 % (maxKeys + 100)) }
	for i := range n {
		testrig.Must(t, d.Decide(t.Context(), &decider.Request{Key: key(i), N: i}, new(decider.Verdict)))
		if i%10_000 == 0 {
			testrig.Must(t, rec.Drain(w))
		}
	}
	testrig.Must(t, rec.Drain(w))
	_, all, err := readAll(&file)
	if err != io.EOF || len(all) != n {
		t.Fatal(len(all), err)
	}
	p := NewPrinter(salt)
	for _, d := range all {
		if d.Key == nil || d.Key.Parts[0].Print != p.Print(key(d.N)) {
			t.Fatalf("%+v is not for the key %s", d, key(d.N))
		}
	}
}
