package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/testrig"
)

// serve serves in a bubble, until the test ends.
func serve(t *testing.T, h http.Handler) *testrig.Network {
	return testrig.Serve(t, &http.Server{Handler: h})
}

// A line is a connection on which a client speaks HTTP/1 by hand. What is not
// taken yet, by either side, waits in it.
type line struct {
	t    *testing.T
	conn net.Conn
	out  chan string
	in   *bufio.Reader
}

func newLine(t *testing.T, n *testrig.Network) *line {
	conn, heard := n.Conn(t), make(inbox, 1000)
	l := &line{t, conn, make(chan string, 10000), bufio.NewReader(&reading{from: heard})}
	go func() {
		for text := range l.out {
			io.WriteString(conn, text)
		}
	}()
	go func() {
		defer close(heard)
		for {
			b := make([]byte, 4096)
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			heard <- b[:n]
		}
	}()
	t.Cleanup(func() { close(l.out) })
	return l
}

type inbox chan []byte

// A reading is of what has come to an inbox.
type reading struct {
	from inbox
	rest []byte
}

func (r *reading) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		var ok bool
		if r.rest, ok = <-r.from; !ok {
			return 0, io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// say sends text, as fast as the server takes it, and does not wait for that.
func (l *line) say(text string) {
	l.out <- text
	synctest.Wait()
}

// hear returns the status, the header and the body of a response; 0 if there is
// none.
func (l *line) hear() (int, http.Header, string) {
	resp, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return 0, nil, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b)
}

// chunk is a part of a chunked body.
func chunk(n int) string {
	const digits = "0123456789abcdef"
	size := ""
	for rest := n; rest > 0 || size == ""; rest /= 16 {
		size = digits[rest%16:rest%16+1] + size
	}
	return size + "\r\n" + strings.Repeat("x", n) + "\r\n"
}

const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
