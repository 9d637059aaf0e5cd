package peer

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A sink is a connection on which bytes come, and which keeps all that is sent.
type sink struct {
	net.Conn
	in io.Reader
	bytes.Buffer
}

func (s *sink) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *sink) Write(b []byte) (int, error) { return s.Buffer.Write(b) }
func (s *sink) Close() error                { return nil }

// FuzzLink sends any bytes to a Client that has made requests.
func FuzzLink(f *testing.F) {
	for _, release := range releases(f) {
		_, asked := framesOf(f, release.client)
		_, answers := framesOf(f, release.server)
		id := uint64(0)
		for _, request := range asked {
			var conn sink
			out := wire.NewWriter(&conn)
			for len(answers) > 0 {
				a := answers[0]
				answers = answers[1:]
				isAnswer := a.Kind == wire.KindAnswer || a.Kind == wire.KindFailure
				if isAnswer {
					a.ID = id % 8
				}
				if err := out.Send(a.ID, a.Kind, a.Payload); err != nil {
					f.Fatal(err)
				}
				if isAnswer || a.Kind >= wire.KindHello {
					break
				}
			}
			out.Flush()
			f.Add(conn.Bytes(), byte(request.Kind))
			id++
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, k byte) {
		c := &Client{cfg: Config{MaxCalls: 100, MaxBytes: 1 << 20}, epoch: time.Now()}
		conn := &sink{in: bytes.NewReader(in)}
		l := newLink(c, conn, wire.NewReader(bufio.NewReaderSize(conn, wire.ReadSize)), wire.NewWriter(conn))
		var calls []*call
		for i := range 8 {
			one := c.pool.get(wire.Kind(k))
			one.req, one.verdict = &decider.Request{Key: "a"}, new(decider.Verdict)
			one.reqs, one.verdicts = make([]decider.Request, i), make([]decider.Verdict, i)
			if err := l.enter(one); err != nil {
				t.Fatal(err)
			}
			if calls = append(calls, one); i%2 == 1 {
				l.abandon(one)
			}
		}
		l.end(l.read())
		for i, one := range calls {
			if i%2 == 1 {
				continue
			}
			for <-one.events != done {
			}
			if x := (&decider.LeafExchange{}); one.err == nil && wire.Kind(k) == wire.KindExchange {
				(&wire.Decoder{Rest: one.answer}).LeafAnswer(x, new(decider.LeafAnswer))
			} else if one.err == nil {
				_, _ = wire.ReadExplanation(one.answer)
				_, _ = wire.ReadSeen(one.answer)
				(&wire.Decoder{Rest: one.answer}).Lease()
			}
		}
		if l.inflight != 0 {
			t.Errorf("%d calls are in flight", l.inflight)
		}
	})
}
