package wire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// Protocol names the protocol and its version in the header Upgrade.
	Protocol = "weir-peer/1"
	// KnowsEpochs is the first revision with epochs of claims, and that of this package. Since 1, instances know weir.Recovering.
	KnowsEpochs = 2
	// maxHello bounds the frames of a handshake, in bytes.
	maxHello = 4 << 10
	// minSecret is the least length of a secret, in bytes.
	minSecret = 16
)

// Info describes an instance.
type Info struct {
	Node     string `json:"node"`               // a random id of the process
	Version  string `json:"version"`            // of weir
	Rules    string `json:"rules"`              // config.Rules.Hash when the connection was made
	Revision int    `json:"revision,omitempty"` // of the package that the instance has: see KnowsEpochs
}

// CheckSecret returns an error for a secret that is too short.
func CheckSecret(secret []byte) error {
	if n := len(secret); n > 0 && n < minSecret {
		return fmt.Errorf("peer: Secret has %d bytes: must have at least %d, or none", n, minSecret)
	}
	return nil
}

// A Hello is the first frame of a side, in JSON.
type Hello struct {
	Info
	Nonce  []byte `json:"nonce"`  // random
	Secret bool   `json:"secret"` // it has one, and wants a proof that the other side has it
	// SilenceMS is peer.Config.Silence in milliseconds.
	SilenceMS int64 `json:"silenceMs,omitempty"`
}

// NewHello returns the hello of an instance.
func NewHello(self Info, secret []byte) Hello {
	h := Hello{Info: self, Nonce: make([]byte, 32), Secret: len(secret) > 0}
	h.Revision = KnowsEpochs
	_, _ = rand.Read(h.Nonce) // it never fails
	return h
}

// A Handshake is the state of one side of a handshake. The hello of the client comes first in the proofs.
type Handshake struct {
	In     *Reader
	Out    *Writer
	Secret []byte
	Banned string    // a node that is refused; none if empty
	hellos [2][]byte // as they were sent, that of the client first
}

// ErrMany refuses a peer because there are too many connections.
var ErrMany = errors.New("too many connections of peers")

// refusals are the errors that a side tells the other, by their numbers. Others are told by
// their texts.
var refusals = []error{1: ErrSecret, 2: ErrMany, 3: ErrSelf}

// sendHello sends the hello of this side, which is the client's or the server's.
func (s *Handshake) sendHello(side int, h Hello) (err error) {
	if s.hellos[side], err = json.Marshal(h); err != nil {
		return err
	}
	return s.send(KindHello, s.hellos[side])
}

func (s *Handshake) send(k Kind, payload []byte) error {
	if err := s.Out.Send(0, k, payload); err != nil {
		return err
	}
	s.Out.Flush()
	return s.Out.Failed()
}

// receive reads a frame of a kind, or returns why the other side refuses.
func (s *Handshake) receive(want Kind) ([]byte, error) {
	s.In.most = maxHello
	f, err := s.In.Read()
	s.In.most = MaxFrame
	switch {
	case err != nil:
		return nil, err
	case f.Kind == kindRefuse:
		d := Decoder{Rest: f.Payload}
		if n := d.Uvarint(); n > 0 && n < uint64(len(refusals)) {
			return nil, fmt.Errorf("%w: it refuses this instance", refusals[n])
		}
		return nil, fmt.Errorf("it refuses this instance: %q", d.Text())
	case f.Kind != want:
		return nil, fmt.Errorf("a frame of kind %d in a handshake, want %d", f.Kind, want)
	}
	return f.Payload, nil
}

// receiveHello reads the hello of the other side.
func (s *Handshake) receiveHello(side int) (h Hello, err error) {
	b, err := s.receive(KindHello)
	if err != nil {
		return h, err
	}
	s.hellos[side] = append([]byte(nil), b...)
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fmt.Errorf("its hello: %w", err)
	}
	switch {
	case s.Banned != "" && h.Node == s.Banned:
		return h, ErrSelf
	case h.Secret && len(s.Secret) == 0:
		return h, fmt.Errorf("%w: it has one, and this instance has none", ErrSecret)
	case !h.Secret && len(s.Secret) > 0:
		return h, fmt.Errorf("%w: it has none, and this instance has one", ErrSecret)
	case h.Secret && len(h.Nonce) < 16:
		return h, fmt.Errorf("%w: its nonce has %d bytes", ErrSecret, len(h.Nonce))
	}
	return h, nil
}

// proof proves that a side has the secret, for these two hellos alone. It is empty without a
// secret.
func (s *Handshake) proof(side int) []byte {
	if len(s.Secret) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, s.Secret)
	_, _ = io.WriteString(mac, Protocol+[]string{" client", " server"}[side])
	for _, h := range s.hellos {
		sum := sha256.Sum256(h)
		_, _ = mac.Write(sum[:])
	}
	return mac.Sum(nil)
}

// receiveProof reads and checks the proof of the other side.
func (s *Handshake) receiveProof(side int) error {
	b, err := s.receive(kindProof)
	if err == nil && !hmac.Equal(b, s.proof(side)) {
		return fmt.Errorf("%w: its proof is wrong", ErrSecret)
	}
	return err
}

// refuse tells the other side why it is refused.
func (s *Handshake) refuse(err error) {
	n := byte(0)
	for i, e := range refusals {
		if e != nil && errors.Is(err, e) {
			n = byte(i)
		}
	}
	text := err.Error()
	_ = s.send(kindRefuse, AppendText([]byte{n}, text[:min(len(text), 1<<10)]))
}

// The sides of a handshake.
const (
	clientSide = 0
	serverSide = 1
)

// GreetServer is the handshake of a client.
func (s *Handshake) GreetServer(mine Hello) (Hello, error) {
	if err := s.sendHello(clientSide, mine); err != nil {
		return Hello{}, err
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

// GreetClient is the handshake of a server.
func (s *Handshake) GreetClient(mine Hello) (Hello, error) {
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
