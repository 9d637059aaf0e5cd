package serve

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func testServer(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{MaxWaiting: 100, Memory: 1 << 20, MaxLeases: 100, Keys: 64, Rules: &config.Rules{Rules: []config.Rule{
		{Name: "own", Glob: "o*", Quota: config.Quota{Rate: config.Rate{Count: 3, Period: time.Second}}, OwnQuota: true, MaxWait: time.Minute},
		{Name: "all", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 3, Period: time.Hour}}, MaxWait: 24 * time.Hour, Concurrency: &config.Concurrency{Limit: 2, TTL: time.Second, MaxWait: time.Minute}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A rawPeer speaks to a Handler frame by frame.
type rawPeer struct {
	t    *testing.T
	conn net.Conn
	in   *wire.Reader
	out  *wire.Writer
}

func newRawPeer(t *testing.T, h *Handler, silence time.Duration) *rawPeer {
	t.Helper()
	mine := wire.NewHello(wire.Info{Node: "raw"}, nil)
	mine.SilenceMS = silence.Milliseconds()
	return greetRaw(t, h, mine)
}

// dial serves a Handler, and returns a connection to it.
func dial(t *testing.T, h *Handler) net.Conn {
	t.Helper()
	pipes := pipenet.Listen()
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(pipes) }()
	t.Cleanup(func() {
		srv.Close()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ended)
		synctest.Wait()
	})
	conn, err := pipes.Dial(t.Context(), "tcp", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func greetRaw(t *testing.T, h *Handler, mine wire.Hello) *rawPeer {
	t.Helper()
	conn := dial(t, h)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: weir\r\nConnection: Upgrade\r\nUpgrade: "+wire.Protocol+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReaderSize(conn, wire.ReadSize)
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	p := &rawPeer{t, conn, wire.NewReader(in), wire.NewWriter(conn)}
	if _, err := (&wire.Handshake{In: p.in, Out: p.out}).GreetServer(mine); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *rawPeer) send(id uint64, k wire.Kind, payload []byte) {
	p.t.Helper()
	if err := p.out.Send(id, k, payload); err != nil {
		p.t.Fatal(err)
	}
	p.out.Flush()
}

// receive returns the next frame that does not tell a rule.
func (p *rawPeer) receive() wire.Frame {
	p.t.Helper()
	for {
		f, err := p.in.Read()
		if err != nil {
			p.t.Fatal(err)
		}
		if f.Kind != wire.KindRule {
			return f
		}
	}
}

// Requests of an unknown kind get an error, and unknown fields at the end are ignored: they come
// from a newer version.
func TestNewerPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Config{Decider: testServer(t)})
		if err != nil {
			t.Fatal(err)
		}
		p := newRawPeer(t, h, time.Second)
		p.send(7, 60, []byte("anything"))
		f := p.receive()
		if _, err := (&wire.Decoder{Rest: f.Payload}).Failure(); f.ID != 7 || f.Kind != wire.KindFailure || err != wire.ErrUnknown {
			t.Errorf("%+v %v", f, err)
		}
		p.send(8, wire.KindDecide, append(wire.AppendRequest(nil, &decider.Request{Key: "a", N: 1}, 1<<40), "more"...))
		if f := p.receive(); f.ID != 8 || f.Kind != wire.KindAnswer || f.Payload[0]&1 == 0 {
			t.Errorf("%+v", f)
		}
		p.send(9, wire.KindDecide, wire.AppendText(nil, "a")) // nothing but the key, from an older version
		if f := p.receive(); f.ID != 9 || f.Kind != wire.KindAnswer {
			t.Errorf("%+v", f)
		}
		for _, bad := range []string{"\x01 ", "\x01\x01", "\x00", "\x05a"} { // keys that no Client sends
			p.send(10, wire.KindDecide, []byte(bad))
			if f := p.receive(); f.ID != 10 || f.Kind != wire.KindFailure {
				t.Errorf("%q: %+v", bad, f)
			}
		}
		p.send(11, wire.KindPing, []byte("12345678"))
		if f := p.receive(); f.Kind != wire.KindPong || string(f.Payload) != "12345678" {
			t.Errorf("%+v", f)
		}
	})
}

// A peer that is silent without closing its connection is taken for dead, and its requests leave
// their queues.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testServer(t)
		h, err := New(Config{Decider: s})
		if err != nil {
			t.Fatal(err)
		}
		p := newRawPeer(t, h, time.Second)
		wait := wire.AppendRequest(wire.AppendSpan(nil, 0), &decider.Request{Key: "a", N: 3}, 0)
		p.send(0, wire.KindWait, wait)
		if f := p.receive(); f.Kind != wire.KindAnswer {
			t.Errorf("%+v", f)
		}
		p.send(1, wire.KindWait, wait)
		p.send(1, wire.KindWait, wait) // the number is in use
		if f := p.receive(); f.ID != 1 || f.Kind != wire.KindFailure {
			t.Errorf("%+v", f)
		}
		time.Sleep(2 * time.Second)
		if st := h.Stats(); s.Waiting() != 1 || st.Waiting != 1 || st.Slow != 0 {
			t.Errorf("%d wait: %+v", s.Waiting(), st)
		}
		time.Sleep(5 * time.Second)
		if st := h.Stats(); s.Waiting() != 0 || st.Waiting != 0 || st.Slow != 1 || st.Conns != 0 {
			t.Errorf("%d wait: %+v", s.Waiting(), st)
		}
	})
}

// A peer that does not read its answers is disconnected, and takes a bounded memory until then,
// whether the reader of its requests writes the answers or another goroutine does.
func TestSlowReader(t *testing.T) {
	const most = 1 << 20 // that are kept: see wire.Writer.Room
	for _, first := range []wire.Kind{wire.KindPing, wire.KindCall} {
		synctest.Test(t, func(t *testing.T) {
			calls := map[string]func(context.Context, wire.Info, []byte) ([]byte, error){
				"nap": func(context.Context, wire.Info, []byte) ([]byte, error) {
					time.Sleep(time.Millisecond)
					return nil, nil
				},
			}
			h, err := New(Config{Decider: testServer(t), Calls: calls})
			if err != nil {
				t.Fatal(err)
			}
			p := newRawPeer(t, h, time.Second)
			p.send(1, first, wire.AppendText(wire.AppendSpan(nil, 0), "nap"))
			time.Sleep(2 * time.Millisecond)
			var sent atomic.Int64
			go func() {
				ping := bytes.Repeat([]byte("x"), 1<<10)
				for sent.Load() < 8*most && p.out.Send(0, wire.KindPing, ping) == nil {
					p.out.Flush()
					sent.Add(int64(len(ping)))
				}
			}()
			time.Sleep(10 * time.Second)
			if st := h.Stats(); st.Slow != 1 || st.Conns != 0 {
				t.Errorf("%+v", st)
			}
			if sent := sent.Load(); sent > 2*most {
				t.Errorf("%d bytes of answers were kept", sent)
			}
		})
	}
}

// A peer of a version that does not know a reason gets the one that stood for it before.
func TestReasonsOfOlderPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testServer(t)
		s.Recover()
		h, err := New(Config{Decider: s})
		if err != nil {
			t.Fatal(err)
		}
		for of, want := range map[int]weir.Reason{0: weir.OverLimit, 1: weir.Recovering, wire.KnowsEpochs + 1: weir.Recovering} {
			p := greetRaw(t, h, wire.Hello{Info: wire.Info{Node: "raw", Revision: of}})
			p.send(1, wire.KindAcquire, wire.AppendLeaseRequest(nil, &decider.LeaseRequest{Key: "l", N: 1}, 0))
			f := p.receive()
			_, err := (&wire.Decoder{Rest: f.Payload}).Failure()
			if r, ok := err.(*weir.Rejection); !ok || r.Reason != want || r.RetryAfter <= 0 {
				t.Errorf("revision %d: %v, want %s", of, err, want)
			}
		}
	})
}
