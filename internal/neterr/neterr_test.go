package neterr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/neterr"
)

func TestKinds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	address := ln.Addr().String()
	silent, err := net.Dial("tcp", address)
	testrig.Must(t, err)
	defer silent.Close()
	_ = silent.SetDeadline(time.Unix(1, 0))
	_, readErr := silent.Read(make([]byte, 1))
	ln.Close()
	_, dialErr := net.Dial("tcp", address)

	for _, tt := range []struct {
		err               error
		refused, timedOut bool
	}{
		{nil, false, false},
		{dialErr, true, false},
		{fmt.Errorf("query: %w", dialErr), true, false},
		{fmt.Errorf("on Windows: %w", syscall.Errno(10061)), true, false},
		{readErr, false, true},
		{fmt.Errorf("query: %w", os.ErrDeadlineExceeded), false, true},
		{context.DeadlineExceeded, false, true},
		{&net.DNSError{IsTimeout: true}, false, true},
		{&net.DNSError{IsNotFound: true}, false, false},
		{syscall.EHOSTUNREACH, false, false},
		{context.Canceled, false, false},
		{io.ErrUnexpectedEOF, false, false},
		{errors.New("no such user"), false, false},
	} {
		if refused, timedOut := neterr.Refused(tt.err), neterr.TimedOut(tt.err); refused != tt.refused || timedOut != tt.timedOut {
			t.Errorf("%v: refused %v, timed out %v: want %v, %v", tt.err, refused, timedOut, tt.refused, tt.timedOut)
		}
	}
}
