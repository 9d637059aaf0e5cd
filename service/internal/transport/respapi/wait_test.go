package respapi_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// Commands are answered in order. Those before one that waits are answered at once.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{}, perKey(1, time.Minute))
		p := s.dial()
		start := time.Now()
		p.send(encode("WEIR.TAKE", "a") + encode("ECHO", "before") + encode("WEIR.WAIT", "a") + encode("ECHO", "after"))
		p.read()
		if got := p.read(); got != "before" || time.Since(start) != 0 {
			t.Errorf("%v after %v", got, time.Since(start))
		}
		other := s.dial()
		other.wants("ECHO other", "other")
		synctest.Wait()
		p.send(encode("ECHO", "sent meanwhile")) // the end of the wait finds a part of it
		if got := fields(p.read()); got["allowed"] != 1 || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", got, time.Since(start))
		}
		for _, want := range []string{"after", "sent meanwhile"} {
			if got := p.read(); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		}
		p.wants("PING", "PONG")
	})
}

// A client that disconnects while it waits gets nothing, and delays no other.
func TestDisconnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{}, append(rules, perKey(1, time.Minute))...)
		first, second := s.dial(), s.dial()
		first.do("WEIR.TAKE a")
		first.do("WEIR.LEASE jobs N 2")
		for _, command := range []string{encode("WEIR.WAIT", "a"), encode("WEIR.LEASE", "jobs", "WAIT", "60")} {
			gone := s.dial()
			gone.send(command)
			synctest.Wait()
			if n := s.server.Waiting(); n != 1 {
				t.Errorf("%d wait", n)
			}
			gone.Close()
			synctest.Wait()
			if n := s.server.Waiting(); n != 0 {
				t.Errorf("%d wait for a client that has left", n)
			}
		}
		start := time.Now()
		if got := fields(second.do("WEIR.WAIT a")); got["allowed"] != 1 || got["place"] != 0 || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", got, time.Since(start))
		}
	})
}

// Shutdown ends idle connections, and waits for commands.
func TestShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{}, perKey(1, time.Minute))
		idle, waits := s.dial(), s.dial()
		idle.wants("PING", "PONG")
		waits.do("WEIR.TAKE a")
		waits.send(encode("WEIR.WAIT", "a"))
		synctest.Wait()
		ended := make(chan error, 1)
		start := time.Now()
		go func() { ended <- s.Shutdown(context.Background()) }()
		if got := idle.read(); fmt.Sprint(got) != "EOF" {
			t.Error(got)
		}
		if _, err := s.ln.Dial(t.Context(), "", ""); err == nil {
			t.Error("a new connection is accepted")
		}
		if got := fields(waits.read()); got["allowed"] != 1 {
			t.Error(got)
		}
		if err := <-ended; err != nil || time.Since(start).Round(time.Second) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Shutdown does not wait for longer than its context, and a server that closes says so.
func TestShutdownInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{}, perKey(1, time.Minute))
		p, dismissed := s.dial(), s.dial()
		p.do("WEIR.TAKE a")
		p.send(encode("WEIR.WAIT", "a"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		dismissed.send(encode("WEIR.WAIT", "a"))
		synctest.Wait()
		s.server.Close(true)
		for _, peer := range []*peer{p, dismissed} {
			if got := peer.read(); got != errorReply("UNAVAILABLE the server is closing") {
				t.Error(got)
			}
		}
		stuck := s.dial()
		stuck.send("*1\r\n$4\r\nPI")
		synctest.Wait()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}

// An unavailable Decider is an error of the command.
func TestUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{}, rules...)
		s.server.Close(true)
		p := s.dial()
		p.do("WEIR.TAKE login:1 2")
		p.wants("WEIR.WAIT login:1", "UNAVAILABLE the server is closing")
		p.wants("WEIR.LEASE jobs", "UNAVAILABLE the server is closing")
	})
}
