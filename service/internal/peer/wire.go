package peer

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/weir-go/weir"
)

// A kind says what a frame is. The numbers are part of the protocol.
type kind uint8

// The kinds of frames.
const (
	kindDecide      kind = 1
	kindWait        kind = 2
	kindBatch       kind = 3
	kindDescriptors kind = 4
	kindSettle      kind = 5
	kindAcquire     kind = 6
	kindRenew       kind = 7
	kindReturn      kind = 8
	kindExchange    kind = 9
	kindExplain     kind = 10
	kindTop         kind = 11
	kindCall        kind = 12
	kindCancel      kind = 13 // of the request with the number
	kindPing        kind = 14 // its payload comes back in kindPong

	kindAnswer  kind = 64
	kindFailure kind = 65 // an answer too
	kindWaits   kind = 66 // the request has begun to wait
	kindRule    kind = 67 // a rule, to which the following answers refer by the number of the frame
	kindPong    kind = 68
	kindLeave   kind = 69 // send no more requests

	kindHello  kind = 128
	kindProof  kind = 129
	kindRefuse kind = 130 // of a hello or a proof
)

const (
	lengthSize = 4
	// minFrame is the size of the shortest frame after its length: a number and a kind.
	minFrame = 2
)

// A decoder reads a payload. At its end, all reads return zero: an older writer does not know the
// last fields. failed is set if the payload is not valid.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) fail() { d.b, d.failed = nil, true }

func (d *decoder) uvarint() uint64 {
	if len(d.b) == 0 {
		return 0
	}
	if c := d.b[0]; c < 0x80 {
		d.b = d.b[1:]
		return uint64(c)
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads a number that is >= 0.
func (d *decoder) count() int {
	v := d.uvarint()
	if v > math.MaxInt {
		d.fail()
		return 0
	}
	return int(v)
}

// signed reads what appendSigned writes.
func (d *decoder) signed() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// span reads what appendSpan writes.
func (d *decoder) span() time.Duration {
	switch u := d.uvarint(); u {
	case 0:
		return 0
	case 1:
		return weir.Never
	default:
		u--
		return time.Duration(int64(u>>1) ^ -int64(u&1))
	}
}

func (d *decoder) octet() byte {
	if len(d.b) == 0 {
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) fixed() uint64 {
	if len(d.b) == 0 {
		return 0
	}
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

// bytes reads what appendText writes. They are a part of the payload.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// text is bytes as a string that is valid only as long as the payload.
func (d *decoder) text() string { b := d.bytes(); return unsafe.String(unsafe.SliceData(b), len(b)) }

// element reads a part of the payload with a length before it.
func (d *decoder) element() decoder { return decoder{b: d.bytes()} }

func appendSigned(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, uint64(v)<<1^uint64(v>>63))
}

// appendSpan appends a duration: short also for weir.Never.
func appendSpan(b []byte, d time.Duration) []byte {
	switch d {
	case 0:
		return append(b, 0)
	case weir.Never:
		return append(b, 1)
	}
	return binary.AppendUvarint(b, (uint64(d)<<1^uint64(d>>63))+1)
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// elementHead is the room for the length of an element: up to 2 MiB.
const elementHead = 3

// beginElement leaves room for the length of an element, which endElement writes.
func beginElement(b []byte) []byte { return append(b, 0x80, 0x80, 0) }

// endElement writes the length of the element that began at b[at:].
func endElement(b []byte, at int) (_ []byte, ok bool) {
	n := len(b) - at - elementHead
	b[at], b[at+1], b[at+2] = 0x80|byte(n), 0x80|byte(n>>7), byte(n>>14)&0x7f
	return b, n < 1<<21
}

// check returns err, or that the payload was not valid.
func (d *decoder) check(err error) error {
	if err == nil && d.failed {
		return fmt.Errorf("%w: %w", ErrUnavailable, errInvalid)
	}
	return err
}
