package http2serve

import (
	"net/http"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A kind tells fields apart that a request needs, or that only the http.Server can judge.
type kind uint8

const (
	method kind = iota
	scheme
	authority
	path
	contentLength // the first that is not a pseudo field
	regular
	strange // a request with such a field is relayed
)

// A field is a decoded header field.
type field struct {
	name, value string
	canonical   string // the name as a key of an http.Header
	kind        kind
}

// size is the size of a field in a table and in a header list (RFC 7541, section 4.1).
func (f *field) size() int { return len(f.name) + len(f.value) + 32 }

// newField returns a field whose kind is known. It does not change any more.
func newField(name, value string) *field {
	f := &field{name: name, value: value, canonical: name, kind: strange}
	switch name {
	case ":method":
		f.kind = method
	case ":scheme":
		if f.kind = scheme; value != "http" && value != "https" {
			f.kind = strange
		}
	case ":authority":
		f.kind = authority
	case ":path":
		f.kind = path
	default:
		f.canonical = http.CanonicalHeaderKey(name)
		f.kind = regularKind(name, value)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		f.kind = strange
	}
	return f
}

func regularKind(name, value string) kind {
	if !httpguts.ValidHeaderFieldName(name) || strings.ToLower(name) != name {
		return strange
	}
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "host", "expect", "trailer", "cookie":
		return strange
	case "te":
		if value != "trailers" {
			return strange
		}
	case "content-length":
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			return strange
		}
		return contentLength
	}
	return regular
}

// staticTable is that of RFC 7541, appendix A, from index 1.
var staticTable = func() (table [62]*field) {
	for i := 1; i < len(table); i++ {
		one, err := hpack.NewDecoder(0, nil).DecodeFull([]byte{0x80 | byte(i)})
		if err != nil {
			panic(err)
		}
		table[i] = newField(one[0].Name, one[0].Value)
	}
	return table
}()

// tableSize is the size of the decoder's table that is announced to clients.
const tableSize = 4096

// A decoder decodes header blocks (RFC 7541). In contrast to hpack.Decoder, it does not allocate for
// what the table has, for what the block before had at the same place, and for paths.
type decoder struct {
	table     []*field // the newest last
	size, max int      // of the table
	most      int      // bytes of a string, and of a header list
	fields    []*field // of the last block
	path      field    // of the last block, as a literal
	texts     []byte   // decoded strings of the last block
}

// errBlock is the error of a block that is not valid.
const errBlock = http2.ConnectionError(http2.ErrCodeCompression)

// decode returns the fields of a block. They are valid until the next call, and the path no longer than the
// block. If the list is too long, the fields after the first too many are missing.
func (d *decoder) decode(b []byte) (fields []*field, tooLong bool, err error) {
	last, list := d.fields, d.fields[:0]
	d.texts = d.texts[:0]
	left := d.most
	for first := true; len(b) > 0; {
		var f *field
		switch {
		case b[0]&0x80 != 0:
			var n int
			if n, b, err = integer(b, 7); err != nil {
				return nil, false, errBlock
			}
			if f = d.at(n); f == nil {
				return nil, false, errBlock
			}
		case b[0]&0xe0 == 0x20:
			if b, err = d.resize(b, first); err != nil {
				return nil, false, errBlock
			}
			continue
		default:
			var old *field
			if i := len(list); i < len(last) && !tooLong {
				old = last[i]
			}
			if f, b, err = d.literal(b, old); err != nil {
				return nil, false, errBlock
			}
		}
		if first = false; tooLong {
			continue
		}
		if left -= f.size(); left < 0 {
			tooLong = true
		}
		list = append(list, f)
	}
	d.fields = list
	return list, tooLong, nil
}

// resize changes the size of the table.
func (d *decoder) resize(b []byte, first bool) ([]byte, error) {
	n, b, err := integer(b, 5)
	if err != nil || n > tableSize || !first && d.size > 0 {
		return nil, errBlock
	}
	d.max = n
	d.evict()
	return b, nil
}

// literal decodes a literal. It returns old if it equals that.
func (d *decoder) literal(b []byte, old *field) (f *field, rest []byte, err error) {
	indexed, bits := b[0]&0x40 != 0, 4
	if indexed {
		bits = 6
	}
	n, b, err := integer(b, bits)
	if err != nil {
		return nil, nil, err
	}
	var name, value []byte
	if n == 0 {
		if name, b, err = d.text(b); err != nil {
			return nil, nil, err
		}
	} else if f = d.at(n); f == nil {
		return nil, nil, errBlock
	}
	if value, b, err = d.text(b); err != nil {
		return nil, nil, err
	}
	switch {
	case f != nil && f.kind == path && !indexed:
		d.path = field{name: f.name, value: text(value), canonical: f.name, kind: path}
		return &d.path, b, nil
	case old != nil && old != &d.path && string(value) == old.value && (f != nil && f.name == old.name || f == nil && string(name) == old.name):
		f = old
	case f != nil:
		f = newField(f.name, string(value))
	default:
		f = newField(string(name), string(value))
	}
	if indexed {
		d.table = append(d.table, f)
		d.size += f.size()
		d.evict()
	}
	return f, b, nil
}

// at returns the field with an index, or nil.
func (d *decoder) at(n int) *field {
	switch {
	case n <= 0 || n >= len(staticTable)+len(d.table):
		return nil
	case n < len(staticTable):
		return staticTable[n]
	}
	return d.table[len(d.table)-1-(n-len(staticTable))]
}

// evict drops the oldest fields until the table is small enough.
func (d *decoder) evict() {
	n := 0
	for ; d.size > d.max; n++ {
		d.size -= d.table[n].size()
	}
	if n > 0 {
		kept := copy(d.table, d.table[n:])
		clear(d.table[kept:])
		d.table = d.table[:kept]
	}
}

// text returns bytes as a string, which must not be used once they change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// text decodes a string. It belongs to the block, or to texts.
func (d *decoder) text(b []byte) (text, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errBlock
	}
	huffman := b[0]&0x80 != 0
	n, b, err := integer(b, 7)
	if err != nil || n > len(b) || n > d.most {
		return nil, nil, errBlock
	}
	text, rest = b[:n], b[n:]
	if huffman {
		from := len(d.texts)
		w := (*textWriter)(&d.texts)
		if _, err := hpack.HuffmanDecode(w, text); err != nil || len(d.texts)-from > d.most {
			return nil, nil, errBlock
		}
		text = d.texts[from:]
	}
	return text, rest, nil
}

// A textWriter appends what hpack.HuffmanDecode writes.
type textWriter []byte

func (w *textWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// integer decodes an integer with a prefix of some bits (RFC 7541, section 5.1).
func integer(b []byte, bits int) (n int, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, errBlock
	}
	most := 1<<bits - 1
	if n = int(b[0]) & most; n < most {
		return n, b[1:], nil
	}
	for i, shift := 1, 0; i < len(b) && shift <= 28; i, shift = i+1, shift+7 {
		n += int(b[i]&0x7f) << shift
		if b[i]&0x80 == 0 {
			return n, b[i+1:], nil
		}
	}
	return 0, nil, errBlock
}

// appendInteger encodes an integer with a prefix of some bits, whose first byte has other bits too.
func appendInteger(b []byte, first byte, bits, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(b, first|byte(n))
	}
	b = append(b, first|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// appendText encodes a string, without Huffman's code.
func appendText[T string | []byte](b []byte, text T) []byte {
	return append(appendInteger(b, 0, 7, len(text)), text...)
}

// appendFields encodes fields as literals, which no table is needed for.
func appendFields(b []byte, fields []*field) []byte {
	for i := range fields {
		b = appendText(append(b, 0), fields[i].name)
		b = appendText(b, fields[i].value)
	}
	return b
}

// plain has the bytes of paths that url.Parse neither decodes nor remembers in RawPath.
var plain = func() (set [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@") {
		set[c] = true
	}
	return set
}()

// isPlain reports whether a path and a query can be used without url.Parse.
func isPlain(text string) (cut int, ok bool) {
	for i := range len(text) {
		if plain[text[i]] {
			continue
		}
		if text[i] != '?' || i+1 == len(text) {
			return 0, false
		}
		for _, c := range []byte(text[i:]) {
			if c <= ' ' || c >= 0x7f {
				return 0, false
			}
		}
		return i, true
	}
	return len(text), true
}
