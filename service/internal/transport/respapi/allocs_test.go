//go:build !race

package respapi_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// A loop is a connection. Its client sends the same bytes again and again, and discards
// the replies.
type loop struct {
	net.Conn
	in    []byte
	times int
	sent  int // times that in was read
	ended chan struct{}
	loops bool // it can be attached
}

// Attach calls ready as an event loop does.
func (l *loop) Attach(ready func() bool) bool {
	if l.loops && l.sent == 0 {
		go func() {
			for ready() {
			}
		}()
	}
	return l.loops
}

func (l *loop) Detach() { panic("the connection blocks") }

func (l *loop) Read(b []byte) (int, error) {
	if l.sent++; l.sent > l.times {
		return 0, io.EOF
	}
	return copy(b, l.in), nil
}

func (l *loop) Write(b []byte) (int, error) { return len(b), nil }

func (l *loop) Close() error {
	close(l.ended)
	return nil
}

// The way of a command through the API allocates nothing.
func TestCommandsAllocateNothing(t *testing.T) {
	s, err := server.New(server.Config{OwnQuotas: true})
	testrig.Must(t, err)
	api, err := respapi.New(s, respapi.Config{})
	testrig.Must(t, err)
	commands := []string{encode("CL.THROTTLE", "key", "15", "30", "60"), encode("WEIR.TAKE", "key"), encode("PING")}
	for i := range 2 * len(commands) {
		command, loops := commands[i/2], i%2 == 1
		const most = 10_000
		run := func(times int) float64 {
			return testing.AllocsPerRun(1, func() {
				client, other := net.Pipe()
				defer other.Close()
				defer client.Close()
				l := &loop{Conn: client, in: []byte(strings.Repeat(command, 8)), times: times, ended: make(chan struct{}), loops: loops}
				ln := pipenet.Listen()
				go func() {
					_ = ln.Connect(t.Context(), l)
					<-l.ended
					_ = ln.Close()
				}()
				_ = api.Serve(ln)
			})
		}
		if more := run(most) - run(1); more > most/100 {
			t.Errorf("%q, loop %v: %v allocations for %d commands", command, loops, more, 8*most)
		}
	}
}
