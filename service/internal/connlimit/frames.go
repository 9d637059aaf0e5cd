package connlimit

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// What frames cost that the clients of a server of small answers send seldom, and floods
// consist of, in units: net/http spends about as much on each of them as on a request, and
// more on a stream that is reset.
const (
	costControl = 10 // any frame but HEADERS and DATA
	costReset   = 50
	costSmall   = 1 // DATA of less than smallData bytes
	smallData   = 64
)

// The units that cost no delay. A connection has its share of unitsEach, and a client has as much
// for those of its connections that need more: 50,000 to 100,000 control frames a second, or
// 10,000 to 20,000 resets, or 500,000 to 1,000,000 small DATA frames. A proxy that cancels all
// its requests, because the service is overloaded, has to stay below.
const (
	unitsEach  = 500_000 // a second for each client
	unitsBurst = 500_000 // of a client
	connBurst  = 1_000   // of a connection
)

// frames reads the frames of a connection as they come, and finds what they cost.
type frames struct {
	preface int // bytes of the client's preface that have come
	off     bool
	header  [9]byte
	have    int // bytes of the header
	skip    int // bytes of the payload that are still to come
}

// begun reports whether the connection speaks HTTP/2.
func (f *frames) begun() bool { return f.preface == len(http2.ClientPreface) }

// read returns what the next bytes of a connection cost.
func (f *frames) read(b []byte) (cost int) {
	if n := min(len(http2.ClientPreface)-f.preface, len(b)); n > 0 {
		if !bytes.Equal(b[:n], []byte(http2.ClientPreface[f.preface:f.preface+n])) {
			f.off = true
			return 0
		}
		f.preface += n
		b = b[n:]
	}
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.header[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < len(f.header) {
			break
		}
		f.have = 0
		f.skip = int(binary.BigEndian.Uint32(f.header[:]) >> 8)
		switch http2.FrameType(f.header[3]) {
		case http2.FrameHeaders:
		case http2.FrameData:
			if f.skip < smallData {
				cost += costSmall
			}
		case http2.FrameRSTStream:
			cost += costReset
		default:
			cost += costControl
		}
	}
	return cost
}

// A debt is units that are not paid yet. They are paid at a rate.
type debt struct {
	units float64
	at    time.Time // of units
}

// add adds as many of the units as leave the debt within most, and returns the others.
func (d *debt) add(units float64, now time.Time, rate, most float64) (rest float64) {
	d.units = max(d.units-now.Sub(d.at).Seconds()*rate, 0)
	d.at = now
	taken := max(min(units, most-d.units), 0)
	d.units += taken
	return units - taken
}

// A budget bounds the units of all connections of a client.
type budget struct {
	conns atomic.Int64 // that speak HTTP/2
	mu    sync.Mutex   // guards debt
	debt  debt
}

// pay returns how long a connection has to pause for frames that cost this much. The
// connection's share of the client's units pays first, then what others have left. The
// rest it owes, and its share pays for that during the pause.
func (b *budget) pay(own *debt, cost int, now time.Time) time.Duration {
	rate := unitsEach / float64(max(b.conns.Load(), 1))
	rest := own.add(float64(cost), now, rate, connBurst)
	if rest > 0 {
		b.mu.Lock()
		rest = b.debt.add(rest, now, unitsEach, unitsBurst)
		b.mu.Unlock()
	}
	own.units += rest
	return time.Duration(max(own.units-connBurst, 0) / rate * float64(time.Second))
}
