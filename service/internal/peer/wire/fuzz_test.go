package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
)

// A talk is a connection on which bytes come, and which takes all that is sent.
type talk struct {
	net.Conn
	in io.Reader
}

func (s talk) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s talk) Write(b []byte) (int, error) { return len(b), nil }

// FuzzHandshake sends any bytes to both sides of a handshake.
func FuzzHandshake(f *testing.F) {
	secret := []byte("a secret of the whole fleet")
	text := []byte(`{"node":"n","nonce":"MDEyMzQ1Njc4OWFiY2RlZg==","secret":true}`)
	f.Add(append(frameBytes(0, KindHello, text), frameBytes(0, kindProof, make([]byte, 32))...))
	f.Add(frameBytes(0, kindRefuse, []byte{1, 0}))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, greet := range []func(*Handshake, Hello) (Hello, error){(*Handshake).GreetClient, (*Handshake).GreetServer} {
			conn := talk{in: bytes.NewReader(in)}
			s := &Handshake{In: NewReader(bufio.NewReader(conn)), Out: NewWriter(conn), Secret: secret}
			if _, err := greet(s, NewHello(Info{}, secret)); err == nil {
				t.Error("a peer without the secret was accepted")
			}
		}
	})
}

func frameBytes(id uint64, k Kind, payload []byte) []byte {
	out := NewWriter(nil)
	_ = out.Send(id, k, payload)
	return out.buf
}
