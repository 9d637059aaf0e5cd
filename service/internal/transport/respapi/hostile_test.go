package respapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// What is no command ends the connection with an error, before it takes memory.
func TestHostileCommands(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"an array of a million":     {"*1000000\r\n" + strings.Repeat("$1\r\na\r\n", 1000), "ERR Protocol error: invalid multibulk length"},
		"nested arrays":             {strings.Repeat("*1\r\n", 10_000), "ERR Protocol error: expected '$', got '*'"},
		"a huge string":             {"*1\r\n$536870912\r\n" + strings.Repeat("x", 100_000), "ERR Protocol error: invalid bulk length"},
		"a command that is too big": {"*64\r\n" + strings.Repeat("$4000\r\n"+strings.Repeat("x", 4000)+"\r\n", 64), "ERR Protocol error: the command is too large"},
		"a line without an end":     {strings.Repeat("x", 100_000), "ERR Protocol error: too big inline request"},
		"a number without an end":   {"*" + strings.Repeat("0", 100_000), "ERR Protocol error: too big mbulk count string"},
		"a request of HTTP/2":       {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "ERR unknown command 'PRI', with args beginning with: '*' 'HTTP/2.0' "},
	} {
		bubble(t, func(t *testing.T) {
			s := serve(t, respapi.Config{})
			p := s.dial()
			p.send(tt.in)
			if got := p.read(); got != errorReply(tt.want) {
				t.Errorf("%s: %v, want %v", name, got, tt.want)
			}
			p.Close()
			synctest.Wait()
		})
	}
}

// A request of HTTP ends the connection, so that its body is no command.
func TestRequestOfHTTP(t *testing.T) {
	for name, head := range map[string]string{
		"POST": "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "PUT": "PUT /CL.THROTTLE HTTP/1.1\r\nhost: localhost\r\n\r\n",
	} {
		bubble(t, func(t *testing.T) {
			s := serve(t, respapi.Config{})
			p := s.dial()
			p.send(encode("PING") + head + "CL.THROTTLE k 0 1 1\r\n")
			all, err := io.ReadAll(p)
			if err != nil || !bytes.HasSuffix(all, []byte("-ERR Protocol error: this is HTTP\r\n")) {
				t.Errorf("%s: %q, %v", name, all, err)
			}
			if st := s.Stats(); st.Ended["protocol"] != 1 {
				t.Errorf("%s: %+v", name, st)
			}
		})
	}
}

// Keys are any bytes that are UTF-8 without control characters.
func TestBinaryKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := serve(t, respapi.Config{}).dial()
		for key, want := range map[string]string{
			"grüße": "[0 1 0 -1 1]", "a b": "[0 1 0 -1 1]", "\xff\xfe": "ERR the key must be UTF-8 without control characters",
			"a\r\nb": "ERR the key must be UTF-8 without control characters", strings.Repeat("k", 1025): "ERR the key is too long",
		} {
			p.send(encode("CL.THROTTLE", key, "0", "1", "1"))
			if got := fmt.Sprint(p.read()); got != want {
				t.Errorf("%q: %s, want %s", key, got, want)
			}
		}
	})
}

// A part of a command has a time limit from its first byte, however slowly the rest comes.
// An idle connection has none.
func TestSlowCommand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var idle atomic.Int64
		s := serve(t, respapi.Config{SetIdle: func(_ net.Conn, is bool) {
			if is {
				idle.Add(1)
			} else {
				idle.Add(-1)
			}
		}})
		p := s.dial()
		time.Sleep(time.Hour)
		p.wants("PING", "PONG")
		time.Sleep(time.Hour)
		if idle.Load() != 1 {
			t.Errorf("idle: %d", idle.Load())
		}
		start := time.Now()
		go func() {
			for _, c := range encode("ECHO", strings.Repeat("x", 100)) {
				if _, err := p.Write([]byte(string(c))); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		if got := p.read(); got != errorReply("ERR the command was not received in time") || time.Since(start) != respapi.DefaultClientTimeout {
			t.Errorf("%v after %v", got, time.Since(start))
		}
		if st := s.Stats(); st.Ended["slow_command"] != 1 {
			t.Errorf("%+v", st)
		}
		p.Close()
		time.Sleep(time.Second) // until the writer sees that
		if idle.Load() != 0 {
			t.Errorf("idle: %d", idle.Load())
		}
	})
}

// A client that takes no replies is cut off. One that is slow is not.
func TestSlowReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{})
		stalled, slow := s.dial(), s.dial()
		commands := strings.Repeat(stuffed("ECHO", 4<<10), 100)
		stalled.send(commands)
		slow.send(commands)
		start := time.Now()
		want := strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", 4<<10, strings.Repeat("x", 4<<10)), 100)
		var got bytes.Buffer
		for b := make([]byte, 4<<10); got.Len() < len(want); time.Sleep(time.Second) {
			n, err := slow.Read(b)
			if got.Write(b[:n]); err != nil {
				t.Fatalf("%v after %v and %d bytes", err, time.Since(start), got.Len())
			}
		}
		if got.String() != want {
			t.Error("other replies than asked for")
		}
		if took := time.Since(start); took < 5*respapi.DefaultClientTimeout {
			t.Errorf("only %v", took)
		}
		if n, err := io.Copy(io.Discard, stalled); err != nil || n > 64<<10 {
			t.Errorf("%d bytes are left for the one that is cut off, %v", n, err)
		}
		if st := s.Stats(); st.Ended["slow_reader"] != 1 {
			t.Errorf("%+v", st)
		}
		slow.wants("PING", "PONG")
	})
}

// A client takes little memory, whatever it sends and does not read.
func TestMemoryOfAClient(t *testing.T) {
	const clients = 200
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{})
		var peers []*peer
		for range clients {
			peers = append(peers, s.dial())
		}
		used := func() uint64 {
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc + m.StackInuse
		}
		commands := []byte(strings.Repeat(stuffed("ECHO", 4<<10), 20))
		before := used()
		for _, p := range peers {
			go func() { _, _ = p.Write(commands) }()
		}
		if each := (int64(used()) - int64(before)) / clients; each > 64<<10 {
			t.Errorf("%d bytes for each client", each)
		}
		for _, p := range peers {
			p.Close()
		}
	})
}

// Whatever is cut into pieces gets the same replies as in one.
func TestPieces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{})
		commands := encode("ECHO", strings.Repeat("a", 5000)) + "PING\r\n" + strings.Repeat(encode("PING", "b"), 3000) + encode("ECHO", "end")
		want := fmt.Sprintf("$5000\r\n%s\r\n+PONG\r\n%s$3\r\nend\r\n", strings.Repeat("a", 5000), strings.Repeat("$1\r\nb\r\n", 3000))
		for _, step := range []int{7, 1000, 4096, 5000, 1 << 20} {
			p := s.dial()
			go func() {
				for from := 0; from < len(commands); from += step {
					_, _ = p.Write([]byte(commands[from:min(from+step, len(commands))]))
				}
			}()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(p, got); err != nil || string(got) != want {
				t.Errorf("%d bytes at a time: %v", step, err)
			}
		}
	})
}
