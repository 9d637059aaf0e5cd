package recording

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

func recorder(t testing.TB, records int) *Recorder {
	r, err := New(Config{Records: records})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drained returns what a Drain of each of the recorders writes.
func drained(t *testing.T, r *Recorder) (*Reader, []Record) {
	var b bytes.Buffer
	if err := r.Drain(NewWriter(&b, r.Epoch())); err != nil {
		t.Fatal(err)
	}
	in, got, err := readAll(t, &b)
	if err != io.EOF {
		t.Fatal(err)
	}
	return in, got
}

func TestDrainWritesEachRecordOnce(t *testing.T) {
	r := recorder(t, 1000)
	for _, n := range []int{0, 1, 63, 64, 65, 700} {
		for i := range n {
			r.Add(&Record{Inflight: i + 1})
		}
		_, got := drained(t, r)
		slices.SortFunc(got, func(a, b Record) int { return a.Inflight - b.Inflight })
		if len(got) != n || n > 0 && (got[0].Inflight != 1 || got[n-1].Inflight != n) {
			t.Errorf("%d records: want %d", len(got), n)
		}
	}
	if r.Lost() != 0 {
		t.Errorf("%d lost", r.Lost())
	}
}

// Of more records than there is room for, the latest are kept, and the others are counted.
func TestTheOldestAreOverwritten(t *testing.T) {
	r := recorder(t, 640)
	for i := range 10_000 {
		r.Add(&Record{Intended: time.Duration(i)})
	}
	in, got := drained(t, r)
	if len(got) < 640 || len(got) > 640+blockRecords*(len(r.stripes)+1) || uint64(len(got))+r.Lost() != 10_000 || in.Lost() != r.Lost() {
		t.Errorf("%d records, %d lost", len(got), r.Lost())
	}
	for _, rec := range got {
		if int(rec.Intended) < 10_000-len(got) {
			t.Errorf("record %d is kept", rec.Intended)
		}
	}
}

// Each record that is added is read or counted as lost, whatever happens at the same time.
func TestNoRecordIsLostSilently(t *testing.T) {
	for _, records := range []int{64, 100_000} {
		const writers, each = 8, 5000
		r := recorder(t, records)
		var b bytes.Buffer
		w := NewWriter(&b, r.Epoch())
		var adding, draining sync.WaitGroup
		done := make(chan struct{})
		for g := range writers {
			adding.Go(func() {
				for i := range each {
					r.Add(&Record{Intended: time.Duration(i), Tenant: uint16(g)})
				}
			})
		}
		draining.Go(func() {
			for {
				if err := r.Drain(w); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
		adding.Wait()
		close(done)
		draining.Wait()
		if err := r.Drain(w); err != nil {
			t.Fatal(err)
		}
		in, got, err := readAll(t, &b)
		if err != io.EOF || uint64(len(got))+in.Lost() != writers*each || records > writers*each && in.Lost() > 0 {
			t.Errorf("%d records and %d lost of %d, %v", len(got), in.Lost(), writers*each, err)
		}
		seen := map[Record]bool{}
		for _, rec := range got {
			if seen[rec] {
				t.Fatalf("%+v twice", rec)
			}
			seen[rec] = true
		}
	}
}

func TestClassesHaveNumbersAndNames(t *testing.T) {
	r := recorder(t, 64)
	if a, b := r.Class("GET /a"), r.Class("GET /b"); a != 1 || b != 2 || r.Class("GET /a") != 1 || r.Class("") != 0 {
		t.Errorf("%d, %d", a, b)
	}
	if a := r.Tenant("anna"); a != 1 || r.Tenant("anna") != 1 || r.Tenant("ben") != 2 || r.Tenant("") != 0 {
		t.Errorf("%d", a)
	}
	in, _ := drained(t, r)
	if got := in.Names(); len(got) != 2 || got[1] != "GET /a" || got[2] != "GET /b" {
		t.Errorf("%v", got)
	}
	for i := range MaxClasses + 5 {
		r.Class("c" + strconv.Itoa(i))
	}
	if last := r.Class("c" + strconv.Itoa(MaxClasses+4)); last != Others || r.Class("GET /a") != 1 {
		t.Errorf("%d", last)
	}
}

func TestBadConfig(t *testing.T) {
	for _, n := range []int{-1, MaxRecords + 1} {
		if _, err := New(Config{Records: n}); err == nil || err.Error() != fmt.Sprintf("recording: Records = %d: must be in [0, %d]", n, MaxRecords) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestDrainReturnsTheErrorOfTheWriter(t *testing.T) {
	r := recorder(t, 64)
	r.Add(&Record{})
	if err := r.Drain(NewWriter(&full{50}, epoch)); err != errFull || r.Lost() != 1 {
		t.Errorf("%v, %d lost", err, r.Lost())
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	r := recorder(t, 1000)
	r.Class("a")
	n := testing.AllocsPerRun(5000, func() { r.Add(&Record{Class: r.Class("a")}) })
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a record costs, without the two looks at the clock for its times.
func BenchmarkAdd(b *testing.B) {
	b.Run("none", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				sink(&Record{Inflight: n})
			}
		})
	})
	b.Run("recorder", func(b *testing.B) {
		r := recorder(b, 0)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				r.Add(&Record{Inflight: n, Start: time.Duration(n), End: time.Duration(2 * n)})
			}
		})
	})
	b.Run("clock", func(b *testing.B) {
		r := recorder(b, 0)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = r.Now()
			}
		})
	})
}

//go:noinline
func sink(*Record) {}
