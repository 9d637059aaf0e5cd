package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/mismatch"
	"github.com/weir-go/weir/service/internal/peer/wire"
)

// upgrade asks a server for the protocol.
func upgrade(c net.Conn, host, path, token string) (*bufio.Reader, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {wire.Protocol}, "User-Agent": {"weir"}}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if err := r.Write(c); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(c, wire.ReadSize)
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols && strings.EqualFold(resp.Header.Get("Upgrade"), wire.Protocol) {
		return in, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return nil, &statusError{resp.StatusCode, path, mismatch.Text(string(text)), resp.Header.Get("Server")}
}

// A statusError is the answer of a server that does not upgrade the connection.
type statusError struct {
	status     int
	path, text string
	server     string // the program, if the answer tells
}

// Unusable reports whether an error of a State says that there is a server, but that it cannot be used:
// with another secret, certificate or version, or another program.
func Unusable(err error) bool {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status != http.StatusServiceUnavailable
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "remote error" { // that is an alert of TLS
		return false
	}
	for _, passing := range []error{nil, wire.ErrUnavailable, wire.ErrMany, context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}

// ownStatuses are the answers of a Handler: their texts say what is wrong.
var ownStatuses = []int{http.StatusForbidden, http.StatusUpgradeRequired, http.StatusServiceUnavailable}

func (e *statusError) Error() string {
	text := fmt.Sprintf("it answers status %d to GET %s: %q", e.status, e.path, e.text)
	if slices.Contains(ownStatuses, e.status) {
		return text
	}
	if e.server != "" {
		text += fmt.Sprintf(" (Server: %.40q)", e.server)
	}
	return text + map[string]string{
		wire.Path:     ": it is no weir serve with --peers",
		wire.LeafPath: ": it is no weir serve that can be an upstream",
	}[e.path]
}
