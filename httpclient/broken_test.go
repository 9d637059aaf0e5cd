package httpclient

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
)

// The throttle treats a broken connection as a refusal, and no other error.
func TestTheThrottleSendsLessToAHostWhoseConnectionsBreak(t *testing.T) {
	in := func(op string, why error) error { return &net.OpError{Op: op, Net: "tcp", Err: why} }
	for _, test := range []struct {
		err  error
		want bool
	}{
		{in("read", syscall.ECONNRESET), true},
		{in("write", syscall.EPIPE), true},
		{in("dial", syscall.EHOSTUNREACH), true},
		{in("dial", &net.DNSError{Err: "no such host"}), true},
		{io.EOF, true},
		{fmt.Errorf("transport connection broken: %w", io.ErrUnexpectedEOF), true},
		{errors.New("malformed HTTP response"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, srv := newClient(t, once, func(int, *http.Request) (*http.Response, error) { return nil, test.err })
			for range 1000 {
				fetch(tr, host1)
			}
			if n := len(srv.asked); (n < 500) != test.want {
				t.Errorf("%v: %d of 1000 sent, %+v", test.err, n, tr.Stats())
			}
		})
	}
}
