package load_test

import (
	"bufio"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// Lines arrive whole, over four connections. The target's answers are ignored.
func TestLines(t *testing.T) {
	for _, body := range []string{"hits.{n}:1|c", "hits.{n}:1|c\n"} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var lines []string
			var conns atomic.Int32
			r, _ := run(t, t.Context(), load.Config{
				Target: "tcp://h:1", Body: body, Profile: pace.Constant(10), Duration: 10 * s,
				Dial: listen(t, func(c net.Conn) {
					conns.Add(1)
					for in := bufio.NewScanner(c); in.Scan(); {
						mu.Lock()
						lines = append(lines, in.Text())
						mu.Unlock()
						_, _ = c.Write([]byte("ok\n"))
					}
				}),
			})
			synctest.Wait() // until all have arrived
			if r.ByStatus["sent"] != 100 || r.Throughput != 0 || r.Latency.All.Count != 100 {
				t.Errorf("%+v: want 100 sent, and no answer", r)
			}
			if len(lines) != 100 || !slices.Contains(lines, "hits.1:1|c") || !slices.Contains(lines, "hits.100:1|c") || conns.Load() != 4 {
				t.Errorf("%q over %d connections: want 100 lines over 4", lines, conns.Load())
			}
		})
	}
}

// A target that stops reading for a time costs the lines of that time. The others wait
// for no longer than the time-out.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, _ := run(t, t.Context(), load.Config{
			Target: "tcp://h:1", Body: "x", Profile: pace.Constant(10), Duration: 20 * s, Timeout: s,
			Dial: listen(t, func(c net.Conn) {
				for in := bufio.NewScanner(c); in.Scan(); {
					if at := time.Since(began); at > 5*s && at < 10*s {
						time.Sleep(10*s - at)
					}
				}
			}),
		})
		if sent := r.ByStatus["sent"]; sent < 150 || r.Latency.All.Max > 1.001 {
			t.Errorf("%v, max %v s: want the lines of 15 s", r.ByStatus, r.Latency.All.Max)
		}
	})
}

// A connection that the target has closed is made again.
func TestLinesReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := run(t, t.Context(), load.Config{
			Target: "tcp://h:1", Body: "x", Profile: pace.Constant(10), Duration: 10 * s,
			Dial: listen(t, func(c net.Conn) { bufio.NewScanner(c).Scan() }),
		})
		if r.ByStatus["sent"] != 100 {
			t.Errorf("%v: want 100 lines", r.ByStatus)
		}
	})
}

func TestDatagrams(t *testing.T) {
	target, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 100)
		for len(lines) < 100 {
			n, _, err := target.ReadFrom(b)
			if err != nil {
				return
			}
			lines = append(lines, string(b[:n]))
		}
	}()
	cfg := load.Config{Target: "udp://" + target.LocalAddr().String(), Body: "hits.{n}:1|c", Profile: pace.Constant(1000), Duration: 100 * time.Millisecond}
	r, _ := run(t, t.Context(), cfg)
	select {
	case <-done:
	case <-time.After(10 * s):
		_ = target.Close()
		<-done
	}
	_ = target.Close()
	slices.Sort(lines)
	if r.ByStatus["sent"] != 100 || len(lines) != 100 || lines[0] != "hits.100:1|c\n" || !strings.HasPrefix(lines[99], "hits.9") {
		t.Errorf("%v, %q: want 100 lines", r.ByStatus, lines)
	}

	// The system reports that a port is closed with a later write.
	r, _ = run(t, t.Context(), cfg)
	if r.ByStatus["refused"] == 0 || r.ByStatus["refused"]+r.ByStatus["sent"] != 100 {
		t.Errorf("%v: want lines that were refused", r.ByStatus)
	}
}
