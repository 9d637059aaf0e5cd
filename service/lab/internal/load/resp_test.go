package load_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// respServer serves a connection: it reads commands, and answers each with what reply
// returns. It reads further commands only after that.
func respServer(reply func(words []string) string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			words, err := readCommand(in)
			if err != nil {
				return
			}
			if _, err := io.WriteString(c, reply(words)); err != nil {
				return
			}
		}
	}
}

func readCommand(in *bufio.Reader) (words []string, err error) {
	n, err := readLength(in, '*')
	for range n {
		size, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, err
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q: want %c", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// A reply decides the label. A 1 is a rejection only of CL.THROTTLE, and a 0 only of WEIR.*.
func TestReplies(t *testing.T) {
	for _, tt := range []struct{ command, reply, want string }{
		{"CL.THROTTLE user:{n} 15 30 60", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", "200"},
		{"cl.throttle user:{n} 15 30 60", "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:30\r\n", "429"},
		{"WEIR.TAKE x", "*4\r\n$7\r\nallowed\r\n:1\r\n$9\r\nremaining\r\n:0\r\n", "200"},
		{"weir.lease x", "*4\r\n$7\r\nallowed\r\n:0\r\n$6\r\nreason\r\n$10\r\nover_limit\r\n", "429"},
		{"WEIR.SETTLE x", "*4\r\n$3\r\nwas\r\n:0\r\n$7\r\ncharged\r\n:0\r\n", "200"},
		{"CL.THROTTLE x", "-ERR wrong number of arguments\r\n", "ERR"},
		{"PING", "+PONG\r\n", "200"},
		{"PING", "+\r\n", "200"},
		{"GET x", "$-1\r\n", "200"},
		{"GET x", "$4\r\na\r\nb\r\n", "200"},
		{"INCR x", ":1\r\n", "200"},
		{"LRANGE x 0 1", "*2\r\n:1\r\n:1\r\n", "200"},
		{"LRANGE x 0 1", "*-1\r\n", "200"},
		{"EXEC", "*3\r\n*2\r\n:1\r\n$1\r\na\r\n-ERR x\r\n*0\r\n", "200"},
		{"PING", "-NOAUTH Authentication required.\r\n", "NOAUTH"},
		{"PING", "-\x1b[2J x\r\n", "error"},
		{"PING", "-" + strings.Repeat("E", 41) + "\r\n", "error"},
		{"PING", "-\r\n", "error"},
		{"PING", "HTTP/1.1 400 Bad Request\r\n", "failed"},
		{"PING", "%1\r\n+a\r\n+b\r\n", "failed"},
		{"PING", "+PONG\n", "failed"},
		{"PING", ":x\r\n", "failed"},
		{"PING", "*-2\r\n", "failed"},
		{"PING", "$99999999999\r\n", "failed"},
		{"PING", "+" + strings.Repeat("x", 5000) + "\r\n", "failed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			var conns atomic.Int32
			serve := respServer(func(words []string) string { got = words; return tt.reply })
			r, _ := run(t, t.Context(), load.Config{
				Target: "redis://h:1", Body: tt.command, Profile: pace.Constant(1), Duration: 5 * s, // the fifth follows the first on its connection
				Dial: listen(t, func(c net.Conn) { conns.Add(1); serve(c) }),
			})
			if n := conns.Load(); tt.want != "failed" && n != 4 {
				t.Errorf("%s, %q: %d connections: want 4, which last", tt.command, tt.reply, n)
			}
			if r.ByStatus[tt.want] != 5 {
				t.Errorf("%s, %q: %v: want five %s", tt.command, tt.reply, r.ByStatus, tt.want)
			}
			if want := strings.ReplaceAll(tt.command, "{n}", "5"); strings.Join(got, " ") != want {
				t.Errorf("%q arrived: want %q", got, want)
			}
		})
	}
}

// Commands do not wait for the replies to others, and share four connections.
func TestPipelining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns atomic.Int32
		r, _ := run(t, t.Context(), load.Config{
			Target: "redis://h:1", Body: "GET {n}", Profile: pace.Constant(100), Duration: 10 * s,
			Dial: listen(t, func(c net.Conn) {
				conns.Add(1)
				in := bufio.NewReader(c)
				var replies sync.WaitGroup
				for { // every reply 2 s after its command
					if _, err := readCommand(in); err != nil {
						return
					}
					replies.Go(func() {
						time.Sleep(2 * s)
						_, _ = io.WriteString(c, "$-1\r\n")
					})
				}
			}),
		})
		if r.ByStatus["200"] != 1000 || conns.Load() != 4 {
			t.Errorf("%v over %d connections: want 1000 over 4", r.ByStatus, conns.Load())
		}
		near(t, "p50", r.Latency.All.P50, 2)
		near(t, "max", r.Latency.All.Max, 2)
	})
}

// A target that reads commands and answers none delays no request beyond its time-out,
// also when a connection has no room for more commands. Late replies are not taken for
// those to later commands.
func TestStalledRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, records := run(t, t.Context(), load.Config{
			Target: "redis://h:1", Body: "CL.THROTTLE {n}", Profile: pace.Constant(5000), Duration: 6 * s, Timeout: s,
			Dial: listen(t, respServer(func(words []string) string {
				time.Sleep(4500*time.Millisecond - time.Since(began))
				n, err := strconv.Atoi(words[1])
				if err != nil {
					t.Error(err)
				}
				return fmt.Sprintf("*1\r\n:%d\r\n", n%2)
			})),
		})
		if r.Latency.All.Max > 1.001 {
			t.Errorf("a request took %v s: the time-out is 1 s", r.Latency.All.Max)
		}
		if r.ByStatus["timeout"] < 17500 || r.ByStatus["timeout"]+r.ByStatus["200"]+r.ByStatus["429"] != 30000 {
			t.Errorf("%v: want time-outs for 3.5 s, and then replies", r.ByStatus)
		}
		for _, rec := range records {
			n := 1 + int(rec.Intended/(200*time.Microsecond))
			if want := []int{200, 429}[n%2]; rec.Status != 0 && rec.Status != want {
				t.Fatalf("request %d: %d: want %d", n, rec.Status, want)
			}
		}
	})
}

// A connection that breaks is made again.
func TestRedisReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := run(t, t.Context(), load.Config{
			Target: "redis://h:1", Body: "PING", Profile: pace.Constant(10), Duration: 10 * s,
			Dial: listen(t, func(c net.Conn) { // two commands each
				in := bufio.NewReader(c)
				for range 2 {
					_, _ = readCommand(in)
					_, _ = io.WriteString(c, "+PONG\r\n")
				}
			}),
		})
		if r.ByStatus["200"] != 100 {
			t.Errorf("%v: want 100 answers", r.ByStatus)
		}
	})
}

func TestRedisSecret(t *testing.T) {
	for _, tt := range []struct{ target, accepted, want string }{
		{"redis://:s%40e@h:1", "AUTH s@e", "200"},
		{"redis://me:s%40e@h:1", "AUTH me s@e", "200"},
		{"redis://:wrong@h:1", "AUTH s@e", "WRONGPASS"},
		{"redis://h:1", "AUTH s@e", "NOAUTH"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := run(t, t.Context(), load.Config{
				Target: tt.target, Body: "PING", Profile: pace.Constant(1), Duration: s,
				Dial: listen(t, func(c net.Conn) {
					known := false
					respServer(func(words []string) string {
						switch {
						case strings.Join(words, " ") == tt.accepted:
							known = true
							return "+OK\r\n"
						case words[0] == "AUTH":
							return "-WRONGPASS invalid username-password pair\r\n"
						case !known:
							return "-NOAUTH Authentication required.\r\n"
						}
						return "+PONG\r\n"
					})(c)
				}),
			})
			if r.ByStatus[tt.want] != 1 {
				t.Errorf("%s: %v: want %s", tt.target, r.ByStatus, tt.want)
			}
		})
	}
}

func TestRedisTLS(t *testing.T) {
	server, client := certificate(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go respServer(func([]string) string { return "+PONG\r\n" })(c)
		}
	}()
	cfg := load.Config{Target: "rediss://" + ln.Addr().String(), Body: "PING", Profile: pace.Constant(100), Duration: 100 * time.Millisecond}
	if r, _ := run(t, t.Context(), cfg); r.ByStatus["untrusted"] != 10 {
		t.Errorf("%v: want that an unknown authority does not count", r.ByStatus)
	}
	cfg.TLS = client
	if r, _ := run(t, t.Context(), cfg); r.ByStatus["200"] != 10 {
		t.Errorf("%v: want 10 answers", r.ByStatus)
	}
}
