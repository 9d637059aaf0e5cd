package respapi_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// script returns commands at random. Their replies depend on nothing but the time.
func script(random *rand.Rand) (b []byte) {
	for range 1 + random.IntN(60) {
		switch random.IntN(12) {
		case 0:
			b = append(b, encode("PING", "hello")...)
		case 1:
			b = append(b, "ECHO \"a \\x41\" \r\n\r\nPING\n"...)
		case 2:
			b = append(b, stuffed("ECHO", random.IntN(5000))...)
		case 3:
			b = append(b, encode("HELLO", "3")...)
		case 4:
			b = append(b, strings.Repeat(encode("CL.THROTTLE", "many", "100", "30", "60"), random.IntN(40))...)
		case 5:
			b = append(b, encode("WEIR.WAIT", "each", "1000", "TIMEOUT", "1")...)
		case 6:
			b = append(b, encode("WEIR.TOP", "x")...)
		case 7:
			b = append(b, strings.Repeat(encode("COMMAND"), random.IntN(20))...)
		case 8:
			b = append(b, encode("WEIR.LEASE", "k", "WAIT", "1")...)
		default:
			b = append(b, encode("CL.THROTTLE", fmt.Sprint("key", random.IntN(5)), "2", "30", "60")...)
		}
	}
	switch random.IntN(8) {
	case 0:
		b = append(b, "*1\r\n*"...)
	case 1:
		b = append(b, encode("QUIT")...)
	case 2:
		b = append(b, "*2\r\n$4\r\nEC"...)
	}
	return b
}

// cut cuts bytes at random.
func cut(random *rand.Rand, b []byte) (pieces [][]byte) {
	for len(b) > 0 {
		n := min(1+random.IntN(1<<random.IntN(14)), len(b))
		pieces, b = append(pieces, b[:n]), b[n:]
	}
	return pieces
}

// smallRead is the size of the buffer of a connection that sends little.
const smallRead = 4 << 10

// FuzzPaths sends the same bytes to an API with a goroutine for each connection, and to one with
// an event loop. All replies and counts are the same.
func FuzzPaths(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		var replies [2][]byte
		var stats [2]respapi.Stats
		for path := range replies {
			synctest.Test(t, func(t *testing.T) {
				onLoop = path == 1
				defer func() { onLoop = false }()
				s := serve(t, respapi.Config{}, perKey(1, time.Minute))
				p := s.dial()
				read := make(chan []byte)
				go func() {
					b, _ := io.ReadAll(p)
					read <- b
				}()
				random := rand.New(rand.NewPCG(seed, 0))
				for _, piece := range cut(random, script(random)) {
					if random.IntN(3) == 0 {
						time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
					}
					if _, err := p.Write(piece); err != nil {
						break
					}
				}
				time.Sleep(time.Minute)
				stats[path] = s.Stats()
				p.Close()
				replies[path] = <-read
			})
		}
		if !bytes.Equal(replies[0], replies[1]) {
			t.Errorf("the event loop replies\n%q, not\n%q", replies[1], replies[0])
		}
		if !reflect.DeepEqual(stats[0], stats[1]) {
			t.Errorf("the event loop counts\n%+v, not\n%+v", stats[1], stats[0])
		}
	})
}

// A connection has a goroutine for what may block, takes long, or is much.
func TestDetach(t *testing.T) {
	few := encode("PING") + encode("CL.THROTTLE", "k", "15", "30", "60") + encode("WEIR.TAKE", "other")
	for name, tt := range map[string]struct {
		in   string
		want int64
	}{
		"commands":                     {few, 0},
		"a wait that is over at once":  {encode("WEIR.WAIT", "a"), 0},
		"a wait":                       {encode("WEIR.WAIT", "a") + encode("WEIR.WAIT", "a"), 1},
		"a wait for a lease":           {encode("WEIR.LEASE", "a", "WAIT", "1"), 1},
		"all keys":                     {encode("WEIR.TOP"), 1},
		"a part of a command":          {few + "*1\r\n$4\r\n", 1},
		"many commands":                {strings.Repeat("PING\r\n\r\n", smallRead/8), 1},
		"long replies to few commands": {strings.Repeat(encode("COMMAND"), 20), 1},
		"an error that ends it":        {"*x\r\n", 1},
	} {
		bubble(t, func(t *testing.T) {
			s := serve(t, respapi.Config{}, perKey(1, time.Minute))
			p := s.dial()
			go func() { _, _ = io.Copy(io.Discard, p) }()
			p.send(tt.in)
			time.Sleep(5 * time.Second)
			if n := s.detached.Load(); onLoop && n != tt.want {
				t.Errorf("%s: detached %d times, want %d", name, n, tt.want)
			}
		})
	}
}

// A connection that has had a goroutine is attached again after some commands, because that
// takes longer than a command. It is not attached for a client that often sends parts.
func TestAttachAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{})
		p := s.dial()
		ping := func(parts ...string) {
			for _, part := range parts {
				p.send(part)
				synctest.Wait()
			}
			if got := p.read(); got != "PONG" {
				t.Error(got)
			}
		}
		for _, commands := range []int{10, 10, 20, 0} {
			ping("PI", "NG\r\n")
			if n := s.detached.Load(); onLoop && (n == 2) != (commands == 0) {
				t.Errorf("detached %d times", n)
			}
			for range commands {
				ping("PING\r\n")
			}
		}
	})
}

// overTCP serves an API at a listener of loopback, until the test ends.
func overTCP(t *testing.T, cfg respapi.Config, wrap func(net.Listener) net.Listener) (s *site, dial func() *peer) {
	t.Helper()
	node, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{perKey(1, time.Minute)}}, OwnQuotas: true})
	testrig.Must(t, err)
	api, err := respapi.New(node, cfg)
	testrig.Must(t, err)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	ln := wrap(plain)
	served := make(chan error, 1)
	go func() { served <- api.Serve(ln) }()
	t.Cleanup(func() {
		_ = api.Shutdown(t.Context())
		if err := <-served; err != respapi.ErrClosed {
			t.Error(err)
		}
	})
	return &site{API: api, server: node, t: t}, func() *peer {
		t.Helper()
		nc, err := net.Dial("tcp", plain.Addr().String())
		testrig.Must(t, err)
		t.Cleanup(func() { nc.Close() })
		return newPeer(nc, t)
	}
}
