package peer

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/mismatch"
)

const (
	// protocol names the protocol and its version in the header Upgrade.
	protocol = "weir-peer/1"
	// maxHello bounds the frames of a handshake, in bytes.
	maxHello = 4 << 10
	// minSecret is the least length of a secret, in bytes.
	minSecret = 16
	// handshakeTime bounds a handshake at the Handler.
	handshakeTime = 5 * time.Second
)

// A hello is the first frame of a side, in JSON.
type hello struct {
	Info
	Nonce  []byte `json:"nonce"`  // random
	Secret bool   `json:"secret"` // it has one, and wants a proof that the other side has it
	// SilenceMS is Config.Silence in milliseconds.
	SilenceMS int64 `json:"silenceMs,omitempty"`
}

func newHello(self Info, secret []byte) hello {
	h := hello{Info: self, Nonce: make([]byte, 32), Secret: len(secret) > 0}
	h.Revision = KnowsEpochs
	_, _ = rand.Read(h.Nonce) // it never fails
	return h
}

// A handshake is the state of one side. The hello of the client comes first in the proofs.
type handshake struct {
	in     *frameReader
	out    *frameWriter
	secret []byte
	not    string    // a node that is refused; none if empty
	hellos [2][]byte // as they were sent, that of the client first
}

// errMany refuses a peer because there are too many connections.
var errMany = errors.New("too many connections of peers")

// errReplaced ends a handshake that a newer one replaces.
var errReplaced = errors.New("the handshake has not ended, and there are too many newer ones")

// refusals are the errors that a side tells the other, by their numbers. Others are told by
// their texts.
var refusals = []error{1: ErrSecret, 2: errMany, 3: ErrSelf}

// sendHello sends the hello of this side, which is the client's or the server's.
func (s *handshake) sendHello(side int, h hello) (err error) {
	if s.hellos[side], err = json.Marshal(h); err != nil {
		return err
	}
	return s.send(kindHello, s.hellos[side])
}

func (s *handshake) send(k kind, payload []byte) error {
	if err := s.out.send(0, k, payload); err != nil {
		return err
	}
	s.out.flush()
	return s.out.failed()
}

// receive reads a frame of a kind, or returns why the other side refuses.
func (s *handshake) receive(want kind) ([]byte, error) {
	f, err := s.in.read()
	switch {
	case err != nil:
		return nil, err
	case f.kind == kindRefuse:
		d := decoder{b: f.payload}
		if n := d.uvarint(); n > 0 && n < uint64(len(refusals)) {
			return nil, fmt.Errorf("%w: it refuses this instance", refusals[n])
		}
		return nil, fmt.Errorf("it refuses this instance: %q", d.text())
	case f.kind != want:
		return nil, fmt.Errorf("a frame of kind %d in a handshake, want %d", f.kind, want)
	}
	return f.payload, nil
}

// receiveHello reads the hello of the other side.
func (s *handshake) receiveHello(side int) (h hello, err error) {
	b, err := s.receive(kindHello)
	if err != nil {
		return h, err
	}
	s.hellos[side] = append([]byte(nil), b...)
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fmt.Errorf("its hello: %w", err)
	}
	switch {
	case s.not != "" && h.Node == s.not:
		return h, ErrSelf
	case h.Secret && len(s.secret) == 0:
		return h, fmt.Errorf("%w: it has one, and this instance has none", ErrSecret)
	case !h.Secret && len(s.secret) > 0:
		return h, fmt.Errorf("%w: it has none, and this instance has one", ErrSecret)
	case h.Secret && len(h.Nonce) < 16:
		return h, fmt.Errorf("%w: its nonce has %d bytes", ErrSecret, len(h.Nonce))
	}
	return h, nil
}

// proof proves that a side has the secret, for these two hellos alone. It is empty without a
// secret.
func (s *handshake) proof(side int) []byte {
	if len(s.secret) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, s.secret)
	_, _ = io.WriteString(mac, protocol+[]string{" client", " server"}[side])
	for _, h := range s.hellos {
		sum := sha256.Sum256(h)
		_, _ = mac.Write(sum[:])
	}
	return mac.Sum(nil)
}

// receiveProof reads and checks the proof of the other side.
func (s *handshake) receiveProof(side int) error {
	b, err := s.receive(kindProof)
	if err == nil && !hmac.Equal(b, s.proof(side)) {
		return fmt.Errorf("%w: its proof is wrong", ErrSecret)
	}
	return err
}

// refuse tells the other side why it is refused.
func (s *handshake) refuse(err error) {
	n := byte(0)
	for i, e := range refusals {
		if e != nil && errors.Is(err, e) {
			n = byte(i)
		}
	}
	text := err.Error()
	_ = s.send(kindRefuse, appendText([]byte{n}, text[:min(len(text), 1<<10)]))
}

// The sides of a handshake.
const (
	clientSide = 0
	serverSide = 1
)

// greetServer is the handshake of a client.
func (s *handshake) greetServer(mine hello) (hello, error) {
	if err := s.sendHello(clientSide, mine); err != nil {
		return hello{}, err
	}
	peer, err := s.receiveHello(serverSide)
	if err == nil {
		err = s.send(kindProof, s.proof(clientSide))
	} else if errors.Is(err, ErrSecret) {
		s.refuse(err)
	}
	if err == nil {
		err = s.receiveProof(serverSide)
	}
	return peer, err
}

// greetClient is the handshake of a server. With a reason, it refuses the client, whose hello it reads.
func (s *handshake) greetClient(mine hello) (hello, error) {
	peer, err := s.receiveHello(clientSide)
	if err == nil {
		err = s.sendHello(serverSide, mine)
	}
	if err == nil {
		err = s.receiveProof(clientSide)
	}
	if err != nil {
		s.refuse(err)
		return peer, err
	}
	return peer, s.send(kindProof, s.proof(serverSide))
}

// upgrade asks a server for the protocol.
func upgrade(c net.Conn, host, path, token string) (*bufio.Reader, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}, "User-Agent": {"weir"}}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if err := r.Write(c); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(c, readSize)
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols && strings.EqualFold(resp.Header.Get("Upgrade"), protocol) {
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
	for _, passing := range []error{nil, ErrUnavailable, errMany, context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}

// ownStatuses are the answers of a Handler, whose texts say what is wrong.
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
		Path:     ": it is no weir serve with --peers",
		LeafPath: ": it is no weir serve that can be an upstream",
	}[e.path]
}
