// Package fieldblock decodes and encodes the header blocks of HTTP/2 (HPACK, RFC 7541) for requests
// that are answered at once. In contrast to package hpack, on which it is built, a Decoder does not allocate for requests
// that resemble the one before, and tells whether a field is ordinary. An Encoder uses the client's table for values that come again.
package fieldblock

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A Kind tells fields of requests apart.
type Kind uint8

// The Kinds. Those before ContentLength are pseudo fields.
const (
	Method Kind = iota
	Scheme
	Authority
	Path
	ContentLength // a number
	Regular
	Strange // invalid, or of connections, or special to net/http
)

// A Field is a header field. It does not change, except the path of a Decoder.
type Field struct {
	Name, Value string
	Canonical   string // Name, as a key of an http.Header
	Kind        Kind
}

// size is the size of a field in a table and in a header list (RFC 7541, section 4.1).
func (f *Field) size() int { return len(f.Name) + len(f.Value) + 32 }

// newField returns a field with its kind. It does not change any more.
func newField(name, value string) *Field {
	f := &Field{Name: name, Value: value, Canonical: name, Kind: Strange}
	switch name {
	case ":method":
		if f.Kind = Method; value == "" {
			f.Kind = Strange
		}
	case ":scheme":
		if f.Kind = Scheme; value != "http" && value != "https" {
			f.Kind = Strange
		}
	case ":authority":
		f.Kind = Authority
	case ":path":
		f.Kind = Path
	default:
		f.Canonical = http.CanonicalHeaderKey(name)
		f.Kind = kindOf(name, value)
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		f.Kind = Strange
	}
	return f
}

func kindOf(name, value string) Kind {
	if !httpguts.ValidHeaderFieldName(name) || strings.ToLower(name) != name {
		return Strange
	}
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "host", "expect", "trailer", "cookie":
		return Strange
	case "te":
		if value != "trailers" {
			return Strange
		}
	case "content-length":
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			return Strange
		}
		return ContentLength
	}
	return Regular
}

// staticTable is the static table of RFC 7541, appendix A, from index 1.
var staticTable = func() (table [62]*Field) {
	for i := 1; i < len(table); i++ {
		one, err := hpack.NewDecoder(0, nil).DecodeFull([]byte{0x80 | byte(i)})
		if err != nil {
			panic(err)
		}
		table[i] = newField(one[0].Name, one[0].Value)
	}
	return table
}()

// TableSize is the size of the decoder's table that is announced to clients.
const TableSize = 4096

// A Decoder decodes the blocks of a connection. It does not allocate for fields that the table has or that the block before
// had at the same place, and for paths.
type Decoder struct {
	table     []*Field // the newest last
	size, max int      // of the table
	most      int      // bytes of a string, and of a header list
	fields    []*Field // of the last block
	path      Field    // the last one that was a literal
	coded     []byte   // path as it came
	decoded   []byte   // the value of path
	texts     []byte   // decoded strings of the last block
	template  template
}

// A template is the last block without the value of its path. A block that differs in the path alone has the same other fields.
type template struct {
	known         bool // the block has not changed the table, and has at most one path that is a literal
	path          bool // it has one; if not, before is the whole block
	before, after []byte
	size          int // of the other fields
}

// maxTemplate bounds the blocks that become a template, in bytes.
const maxTemplate = 1 << 10

// NewDecoder returns a Decoder of lists of most bytes, counted as RFC 9113, section 6.5.2, does.
func NewDecoder(most int) *Decoder { return &Decoder{max: TableSize, most: most} }

// Volatile reports whether a field of the last list must not be used after the next call of Decode.
func (d *Decoder) Volatile(f *Field) bool { return f == &d.path }

// Forget drops the last list, which may be large. The table stays.
func (d *Decoder) Forget() {
	d.fields, d.texts, d.path, d.coded, d.decoded, d.template = nil, nil, Field{}, nil, nil, template{}
}

// errBlock is the error of a block that is not valid.
const errBlock = http2.ConnectionError(http2.ErrCodeCompression)

// Decode returns the fields of a block. The list and the path are valid until the next call, and other fields do not
// change. If the list is too long, the fields after the first too many are missing.
func (d *Decoder) Decode(b []byte) (fields []*Field, tooLong bool, err error) {
	d.texts = d.texts[:0]
	if d.template.known && d.again(b) {
		return d.fields, false, nil
	}
	d.template.known = false
	last, list := d.fields, d.fields[:0]
	block, changes, paths := b, false, 0 // whether it may change the table, and literal paths
	end := len(b)                        // of the path
	left := d.most
	for first := true; len(b) > 0; first = false {
		var f *Field
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
			changes = true
			continue
		default:
			var old *Field
			if i := len(list); i < len(last) && !tooLong {
				old = last[i]
			}
			changes = changes || b[0]&0x40 != 0
			if f, b, err = d.literal(b, old); err != nil {
				return nil, false, errBlock
			}
			if f == &d.path {
				paths, end = paths+1, len(block)-len(b)
			}
		}
		if tooLong {
			continue
		}
		if left -= f.size(); left < 0 {
			tooLong = true
		}
		list = append(list, f)
	}
	if d.fields = list; !changes && !tooLong && paths <= 1 && len(block) <= maxTemplate {
		d.keepTemplate(block, end, paths > 0, d.most-left)
	}
	return list, tooLong, nil
}

// keepTemplate makes a block the template. Its path, if any, ends at end, and its fields have a size.
func (d *Decoder) keepTemplate(block []byte, end int, path bool, size int) {
	from := end
	if path {
		from -= len(d.coded)
		size -= d.path.size()
	}
	t := &d.template
	*t = template{known: true, path: path, before: append(t.before[:0], block[:from]...), after: append(t.after[:0], block[end:]...), size: size}
}

// again decodes a block that has the template of the last one, and reports whether it does.
func (d *Decoder) again(b []byte) bool {
	t := &d.template
	if !bytes.HasPrefix(b, t.before) {
		return false
	}
	b = b[len(t.before):]
	if t.path {
		var err error
		if _, b, err = d.literalPath(b, d.path.Name); err != nil || t.size+d.path.size() > d.most {
			return false
		}
	}
	return bytes.Equal(b, t.after)
}

// resize changes the size of the table.
func (d *Decoder) resize(b []byte, first bool) ([]byte, error) {
	n, b, err := integer(b, 5)
	if err != nil || n > TableSize || !first && d.size > 0 {
		return nil, errBlock
	}
	d.max = n
	d.evict()
	return b, nil
}

// literal decodes a literal. old is the field at its place in the last list, or nil: a literal that
// equals it needs no new Field. The exception is d.path: the next path overwrites its value.
func (d *Decoder) literal(b []byte, old *Field) (f *Field, rest []byte, err error) {
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
	} else if f.Kind == Path && !indexed {
		return d.literalPath(b, f.Name)
	}
	if value, b, err = d.text(b); err != nil {
		return nil, nil, err
	}
	switch {
	case old != nil && old != &d.path && string(value) == old.Value && (f != nil && f.Name == old.Name || f == nil && string(name) == old.Name):
		f = old
	case f != nil:
		f = newField(f.Name, string(value))
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

// literalPath decodes a path. One that came as the last one did is not decoded again.
func (d *Decoder) literalPath(b []byte, name string) (f *Field, rest []byte, err error) {
	if len(d.coded) > 0 && bytes.HasPrefix(b, d.coded) {
		return &d.path, b[len(d.coded):], nil
	}
	value, rest, err := d.text(b)
	if err != nil {
		return nil, nil, err
	}
	d.coded, d.decoded = append(d.coded[:0], b[:len(b)-len(rest)]...), append(d.decoded[:0], value...)
	if d.path.Name == "" {
		d.path = Field{Name: name, Canonical: name, Kind: Path}
	}
	d.path.Value = text(d.decoded)
	return &d.path, rest, nil
}

// at returns the field with an index, or nil.
func (d *Decoder) at(n int) *Field {
	switch {
	case n <= 0 || n >= len(staticTable)+len(d.table):
		return nil
	case n < len(staticTable):
		return staticTable[n]
	}
	return d.table[len(d.table)-1-(n-len(staticTable))]
}

// evict drops the oldest fields until the table is small enough.
func (d *Decoder) evict() {
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
func (d *Decoder) text(b []byte) (text, rest []byte, err error) {
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
		if err := d.appendHuffman(text); err != nil || len(d.texts)-from > d.most {
			return nil, nil, errBlock
		}
		text = d.texts[from:]
	}
	return text, rest, nil
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
