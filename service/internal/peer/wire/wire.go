// Package wire is the protocol of the links between instances of weir serve: the frames, the
// payloads of requests and answers, and the handshake.
//
// A link is an HTTP/1.1 connection to the public listener of the other instance, upgraded by
// GET /-/peer to frames in both directions:
//
//	length of the rest (4 bytes, big endian)   number of the request (uvarint)   kind (1 byte)   payload
//
// A connection carries many requests at a time, and answers come in any order. Requests and
// answers that are ready at the same time share one write.
//
// # Handshake
//
// Both sides send a Hello: the id of the node, its version, the hash of its rules and a nonce. With
// a shared secret, each then proves that it has the secret, by an HMAC over both hellos. The secret
// itself is never sent. Without TLS, the network can still read and change the frames that follow.
//
// # Versions
//
// Instances of different versions understand each other. A hello and a payload may have fields that
// the reader does not know, those of a payload at its end; a reader takes the zero value for missing
// ones. A request of an unknown kind is answered with ErrUnknown, and other frames of unknown kinds
// are ignored. An answer that an older reader would misread is not sent to it: each hello has the
// revision of its side, which is 0 for a version without one.
//
// A change that all this does not cover is another protocol, which a client offers beside the
// present one, before it, in the header Upgrade.
package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/weir-go/weir"
)

// Path is where the public listener of an instance serves its Handler.
const Path = "/-/peer"

// LeafPath is where the public listener of an instance serves the Handler of its leaves: instances
// that have it as their upstream. Its Decider may ask others.
const LeafPath = "/-/leaf"

// A Kind says what a frame is. The numbers are part of the protocol.
type Kind uint8

// The kinds of frames.
const (
	KindDecide      Kind = 1
	KindWait        Kind = 2
	KindBatch       Kind = 3
	KindDescriptors Kind = 4
	KindSettle      Kind = 5
	KindAcquire     Kind = 6
	KindRenew       Kind = 7
	KindReturn      Kind = 8
	KindExchange    Kind = 9
	KindExplain     Kind = 10
	KindTop         Kind = 11
	KindCall        Kind = 12
	KindCancel      Kind = 13 // of the request with the number
	KindPing        Kind = 14 // its payload comes back in KindPong

	KindAnswer  Kind = 64
	KindFailure Kind = 65 // an answer too
	KindWaits   Kind = 66 // the request has begun to wait
	KindRule    Kind = 67 // a rule, to which the following answers refer by the number of the frame
	KindPong    Kind = 68
	KindLeave   Kind = 69 // send no more requests

	KindHello  Kind = 128
	kindProof  Kind = 129
	kindRefuse Kind = 130 // of a hello or a proof
)

const (
	lengthSize = 4
	// minFrame is the size of the shortest frame after its length: a number and a kind.
	minFrame = 2
)

// A Decoder reads a payload. At its end, all reads return zero: an older writer does not know the
// last fields.
type Decoder struct {
	Rest   []byte // of the payload
	Failed bool   // the payload is not valid
}

// Fail sets Failed. All further reads return zero.
func (d *Decoder) Fail() { d.Rest, d.Failed = nil, true }

// Uvarint reads a number as binary.AppendUvarint writes it.
func (d *Decoder) Uvarint() uint64 {
	if len(d.Rest) == 0 {
		return 0
	}
	if c := d.Rest[0]; c < 0x80 {
		d.Rest = d.Rest[1:]
		return uint64(c)
	}
	v, n := binary.Uvarint(d.Rest)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Count reads a number that is >= 0.
func (d *Decoder) Count() int {
	v := d.Uvarint()
	if v > math.MaxInt {
		d.Fail()
		return 0
	}
	return int(v)
}

// signed reads what appendSigned writes.
func (d *Decoder) signed() int64 {
	u := d.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Span reads what AppendSpan writes.
func (d *Decoder) Span() time.Duration {
	switch u := d.Uvarint(); u {
	case 0:
		return 0
	case 1:
		return weir.Never
	default:
		u--
		return time.Duration(int64(u>>1) ^ -int64(u&1))
	}
}

// Octet reads a byte.
func (d *Decoder) Octet() byte {
	if len(d.Rest) == 0 {
		return 0
	}
	c := d.Rest[0]
	d.Rest = d.Rest[1:]
	return c
}

func (d *Decoder) fixed() uint64 {
	if len(d.Rest) == 0 {
		return 0
	}
	if len(d.Rest) < 8 {
		d.Fail()
		return 0
	}
	v := binary.BigEndian.Uint64(d.Rest)
	d.Rest = d.Rest[8:]
	return v
}

// bytes reads what AppendText writes. They are a part of the payload.
func (d *Decoder) bytes() []byte {
	n := d.Uvarint()
	if n > uint64(len(d.Rest)) {
		d.Fail()
		return nil
	}
	b := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return b
}

// Text is bytes as a string that is valid only as long as the payload.
func (d *Decoder) Text() string { b := d.bytes(); return unsafe.String(unsafe.SliceData(b), len(b)) }

// Element reads a part of the payload with a length before it.
func (d *Decoder) Element() Decoder { return Decoder{Rest: d.bytes()} }

func appendSigned(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, uint64(v)<<1^uint64(v>>63))
}

// AppendSpan appends a duration: short also for weir.Never.
func AppendSpan(b []byte, d time.Duration) []byte {
	switch d {
	case 0:
		return append(b, 0)
	case weir.Never:
		return append(b, 1)
	}
	return binary.AppendUvarint(b, (uint64(d)<<1^uint64(d>>63))+1)
}

// AppendText appends a text with its length before it.
func AppendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// elementHead is the room for the length of an element: up to 2 MiB.
const elementHead = 3

// BeginElement leaves room for the length of an element, which EndElement writes.
func BeginElement(b []byte) []byte { return append(b, 0x80, 0x80, 0) }

// EndElement writes the length of the element that began at b[at:].
func EndElement(b []byte, at int) (_ []byte, ok bool) {
	n := len(b) - at - elementHead
	b[at], b[at+1], b[at+2] = 0x80|byte(n), 0x80|byte(n>>7), byte(n>>14)&0x7f
	return b, n < 1<<21
}

// Check returns err, or that the payload was not valid.
func (d *Decoder) Check(err error) error {
	if err == nil && d.Failed {
		return fmt.Errorf("%w: %w", ErrUnavailable, ErrInvalid)
	}
	return err
}
