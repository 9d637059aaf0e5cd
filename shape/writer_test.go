package shape_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shape"
)

func TestWriter(t *testing.T) {
	for _, tt := range paces() {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim, b := tt.limiter()
				sent := content(tt.size)
				log := newLog()
				var got bytes.Buffer
				w := shape.NewWriter(t.Context(), io.MultiWriter(&got, log), lim)
				copyBy(t, w, bytes.NewReader(sent), tt.buf)
				same(t, got.Bytes(), sent)
				if log.String() != tt.want {
					t.Errorf("%v: want %v", log, tt.want)
				}
				if b.Taken() != tt.size {
					t.Errorf("paid for %d of %d", b.Taken(), tt.size)
				}
			})
		})
	}
}

var errFull = errors.New("the sink's own")

// A sink takes at most n bytes of each Write, and fails with err if that is
// less than it got.
type sink struct {
	bytes.Buffer
	n   int
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if len(p) <= s.n {
		return s.Buffer.Write(p)
	}
	n, _ := s.Buffer.Write(p[:s.n])
	return n, s.err
}

// Of each Write it is told exactly how much was written, and why no more.
func TestWriterStops(t *testing.T) {
	for _, tt := range []struct {
		rule string
		ctx  time.Duration // ends then, if not zero
		sink sink
		want int
		err  error
		at   time.Duration
		free int // passes for nothing afterwards
	}{
		{"at nothing", 0, sink{n: 99}, 40, nil, 300 * time.Millisecond, 0},
		{"when the context ends", 120 * time.Millisecond, sink{n: 99}, 20, context.Canceled, 120 * time.Millisecond, 0},
		{"at a short write", 0, sink{n: 4}, 4, io.ErrShortWrite, 0, 6},
		{"at an error", 0, sink{n: 7, err: errFull}, 7, errFull, 0, 3},
		{"at an error later on", 0, sink{n: 10, err: errFull}, 40, nil, 300 * time.Millisecond, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.ctx > 0 {
					time.AfterFunc(tt.ctx, cancel)
				}
				b := newBucket(100, 10)
				began := time.Now()
				n, err := shape.NewWriter(ctx, &tt.sink, b).Write(content(40))
				if n != tt.want || err != tt.err || time.Since(began) != tt.at {
					t.Errorf("%d, %v, %v: want %d, %v, %v", n, err, time.Since(began), tt.want, tt.err, tt.at)
				}
				same(t, tt.sink.Bytes(), content(40)[:n])
				if free := b.Taken() - n; free != tt.free {
					t.Errorf("paid for %d more than were written: want %d", free, tt.free)
				}
			})
		})
	}
}

// What was paid for and could not be written passes later for nothing.
func TestWriterTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 10)
		s := &sink{n: 2, err: errFull}
		w := shape.NewWriter(t.Context(), s, b)
		began, sent, calls := time.Now(), content(50), 0
		for len(sent) > 0 {
			n, err := w.Write(sent)
			if n != 2 || err != errFull && len(sent) > 2 {
				t.Fatal(n, err)
			}
			sent = sent[n:]
			calls++
		}
		if d := time.Since(began); calls != 25 || d < 400*time.Millisecond || d > 480*time.Millisecond {
			t.Errorf("%d calls, %v: want 25, and the time of 50 bytes", calls, d)
		}
		if b.Taken() > 50+8 {
			t.Errorf("paid for %d of 50", b.Taken())
		}
		same(t, s.Bytes(), content(50))
	})
}

func TestWriterPaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 10)
		s := &sink{n: 2}
		w := shape.NewWriter(t.Context(), s, b)
		if n, err := w.Write(content(10)); n != 2 || err != io.ErrShortWrite {
			t.Error(n, err)
		}
		s.n = 10
		for i, want := range []struct {
			n  int
			at time.Duration
		}{{3, 0}, {5, 0}, {5, 50 * time.Millisecond}} {
			if n, err := w.Write(content(want.n)); n != want.n || err != nil {
				t.Error(n, err)
			}
			if d := time.Since(bubbleBegan); d != want.at {
				t.Errorf("write %d at %v: want %v", i, d, want.at)
			}
		}
	})
}

func TestWriterContextThatHasEnded(t *testing.T) {
	for name, lim := range map[string]shape.Limiter{"a limiter": newBucket(100, 10), "none": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var got bytes.Buffer
			w := shape.NewWriter(ctx, &got, lim)
			if n, err := w.Write(content(5)); n != 5 || err != nil {
				t.Error(n, err)
			}
			cancel()
			if n, err := w.Write(content(5)); n != 0 || err != context.Canceled || got.Len() != 5 {
				t.Error(n, err)
			}
		})
	}
}

// An empty Write is the sink's business.
func TestWriterOfNothing(t *testing.T) {
	log := newLog()
	if n, err := shape.NewWriter(t.Context(), log, newBucket(100, 10)).Write(nil); n != 0 || err != nil || len(log.n) != 1 {
		t.Errorf("%d, %v: want it to be passed on", n, err)
	}
}

// A writer that breaks its contract does not affect others.
func TestWriterToNonsense(t *testing.T) {
	for said, want := range map[nonsense]int{-5: 0, 99: 20} {
		w := shape.NewWriter(t.Context(), said, newBucket(1e9, 20))
		n, err := w.Write(content(20))
		if n != want || (err == nil) != (want == 20) {
			t.Errorf("it said %d: %d, %v: want %d", said, n, err, want)
		}
	}
}

func TestWriterTruncates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		w := shape.NewWriter(t.Context(), iotest.TruncateWriter(&got, 33), newBucket(100, 10))
		if n, err := io.Copy(w, bytes.NewReader(content(100))); n != 100 || err != nil {
			t.Error(n, err)
		}
		same(t, got.Bytes(), content(33))
	})
}

func TestWriterIsNeverAhead(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			b := newBucket(1+rng.IntN(2000), 1+rng.IntN(300))
			var lim shape.Limiter = b
			if rng.IntN(3) == 0 {
				lim = mute{b}
			}
			log := newLog()
			w := shape.NewWriter(t.Context(), log, lim)
			for range 20 {
				n := rng.IntN(1000)
				if m, err := w.Write(make([]byte, n)); m != n || err != nil {
					t.Error(m, err)
				}
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
				}
			}
			log.bounded(t, b)
		})
	}
}
