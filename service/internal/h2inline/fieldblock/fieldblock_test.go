package fieldblock_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
)

const most = 2000 // bytes of a list

// blocks returns the blocks of a client that sends similar requests.
func blocks() (all [][]byte) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := range 100 {
		b.Reset()
		if i%30 == 29 {
			e.SetMaxDynamicTableSize(uint32(i) * 10)
		}
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "weir"},
			{Name: ":path", Value: "/rate/" + strconv.Itoa(i), Sensitive: i%2 == 0}, {Name: "user-agent", Value: "test/" + strconv.Itoa(i/10)},
			{Name: "x-secret", Value: "same", Sensitive: true}, {Name: "content-length", Value: "3"},
		} {
			_ = e.WriteField(f)
		}
		all = append(all, bytes.Clone(b.Bytes()))
	}
	return all
}

// split returns the blocks of a text: each begins with its length.
func split(b []byte) (all [][]byte) {
	for len(b) > 0 {
		n := min(int(b[0]), len(b)-1)
		all, b = append(all, b[1:1+n]), b[1+n:]
	}
	return all
}

// A Decoder agrees with package hpack.
func FuzzDecoder(f *testing.F) {
	var real []byte
	for _, b := range blocks() {
		real = append(append(real, byte(len(b))), b...)
	}
	f.Add(real)
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := bytes.Clone(real)
		for range 5 {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		f.Add(b)
	}
	for _, bits := range []string{"\x1c", "\x1e", "\x00", "\xff", "\xff\xff\xff\xff", "\x07", "\x1f\xff"} { // Huffman's code with right and wrong ends
		f.Add([]byte(string(rune(len(bits)+3)) + "\x04" + string([]byte{0x80 | byte(len(bits))}) + bits))
	}
	for _, secrets := range []string{"same", "mess"} { // blocks that do not change the table
		var same []byte
		for i := range 40 {
			b := "\x83\x04" + string([]byte{byte(1 + i%9)}) + strings.Repeat("/", 1+i%9) + "\x10\x01x" + "\x04" + secrets
			same = append(append(same, byte(len(b))), b...)
		}
		f.Add(same)
	}
	f.Add([]byte("\x03\x3f\xe1\x1f\x02\x20\x20\x02\x82\x20")) // changes of the table's size
	f.Fuzz(func(t *testing.T, text []byte) {
		d := fieldblock.NewDecoder(most)
		oracle := hpack.NewDecoder(fieldblock.TableSize, nil)
		oracle.SetMaxStringLength(most)
		for _, b := range split(text) {
			if !agree(t, d, oracle, b) {
				return
			}
		}
	})
}

// agree checks that a Decoder and package hpack find the same in a block, and reports whether it is valid.
func agree(t *testing.T, d *fieldblock.Decoder, oracle *hpack.Decoder, b []byte) bool {
	t.Helper()
	want, wantErr := oracle.DecodeFull(b)
	got, tooLong, err := d.Decode(b)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%x: %v, hpack %v", b, err, wantErr)
	}
	if err != nil {
		return false
	}
	paths := 0 // that are in the same memory
	for _, f := range got {
		if d.Volatile(f) {
			paths++
		}
	}
	left := most
	for i, f := range want {
		if left -= int(f.Size()); left < 0 {
			if !tooLong || len(got) != i+1 {
				t.Fatalf("%x: %d fields, want %d of a list that is too long", b, len(got), i+1)
			}
			break
		}
		if i >= len(got) || got[i].Name != f.Name || got[i].Value != f.Value && (paths < 2 || !d.Volatile(got[i])) {
			t.Fatalf("%x: field %d is not %v", b, i, f)
		}
	}
	if left >= 0 && (tooLong || len(got) != len(want)) {
		t.Fatalf("%x: %d fields, want %d", b, len(got), len(want))
	}
	return true
}

// Blocks that differ from the one before in the path alone, and some that differ in something else, too.
func TestSimilarBlocks(t *testing.T) {
	d, oracle := fieldblock.NewDecoder(most), hpack.NewDecoder(fieldblock.TableSize, nil)
	text := func(s string) string { return string([]byte{byte(len(s))}) + s }
	path := func(s string) string {
		return "\x04" + string(hpack.AppendHuffmanString([]byte{0x80 | byte(hpack.HuffmanEncodeLength(s))}, s))
	}
	secret := func(s string) string { return "\x10" + text("x-secret") + text(s) }
	adds := "\x40" + text("x-added") + text("1")
	long := "\x04\x7f\xb3\x0e" + strings.Repeat("p", 1970) // too much for the list, not for a string
	for i, b := range []string{
		"\x83" + path("/a") + secret("same"), "\x83" + path("/bcd") + secret("same"), "\x83" + path("/bcd") + secret("same"), "\x83" + path("/e") + secret("else"), "\x83" + path("/e") + secret("else") + "\x87",
		"\x82" + path("/e") + secret("else") + "\x87", "\x82" + path("/e") + path("/f"), "\x82" + path("/e") + path("/g"), "\x82" + path("/e"), "\x82" + path("/f"), "\x82", "\x82", "\x83",
		"\x83" + path("/a") + adds, "\x83" + path("/a") + adds, "\x83" + path("/a") + adds, "\xc0\xbf\xbe" + path("/a"), "\xc0\xbf\xbe" + path("/b"), "\x20\x82", "\x3f\x45\x82", adds, "\xbe" + path("/a"), "\x20\x83", "\x3f\x45\x83",
		"\x83" + path("/a"), "\x83" + long, "\x83" + path("/a"),
	} {
		if !agree(t, d, oracle, []byte(b)) {
			t.Fatalf("block %d is not valid", i)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        fieldblock.Kind
	}{
		{":method", "GET", fieldblock.Method}, {":method", "", fieldblock.Strange}, {":scheme", "ftp", fieldblock.Strange}, {":protocol", "websocket", fieldblock.Strange},
		{":path", "/", fieldblock.Path}, {"accept", "*/*", fieldblock.Regular}, {"Accept", "*/*", fieldblock.Strange}, {"x y", "", fieldblock.Strange}, {"", "", fieldblock.Strange},
		{"x", "a\nb", fieldblock.Strange}, {"te", "trailers", fieldblock.Regular}, {"te", "gzip", fieldblock.Strange}, {"cookie", "a=b", fieldblock.Strange},
		{"content-length", "12", fieldblock.ContentLength}, {"content-length", "-1", fieldblock.Strange}, {"connection", "close", fieldblock.Strange},
	} {
		var b bytes.Buffer
		_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: tt.name, Value: tt.value})
		list, _, err := fieldblock.NewDecoder(most).Decode(b.Bytes())
		if err != nil || len(list) != 1 || list[0].Kind != tt.want {
			t.Errorf("%q %q: %v %v", tt.name, tt.value, list, err)
		}
	}
}

// Every byte is decoded beside every other: their codes have 5 to 30 bits.
func TestHuffman(t *testing.T) {
	d := fieldblock.NewDecoder(most)
	for i := range 1 << 16 {
		value := string([]byte{byte(i >> 8), byte(i), 'e'})
		coded := hpack.AppendHuffmanString(nil, value)
		list, _, err := d.Decode(append([]byte{0x04, 0x80 | byte(len(coded))}, coded...))
		if err != nil || len(list) != 1 || list[0].Value != value {
			t.Fatalf("%q: %v %v", value, list, err)
		}
	}
}

// Package hpack decodes what is encoded without a table.
func TestEncode(t *testing.T) {
	b := fieldblock.AppendStatus(nil, http.StatusOK)
	b = fieldblock.AppendStatus(b, http.StatusTeapot)
	contentType := fieldblock.NameOf("Content-Type")
	b = contentType.Append(contentType.Append(b, "text/plain"), "")
	b = fieldblock.NameOf("Weir-Odd").Append(b, strings.Repeat("x", 300))
	if fieldblock.NameOf("not a name") != nil {
		t.Error("a name that is not valid")
	}
	b = fieldblock.AppendContentLength(b, 12)
	b = fieldblock.NameOf("Date").Append(b, "today")
	b = fieldblock.AppendLiterals(b, []*fieldblock.Field{{Name: "x", Value: "y"}})
	list, err := hpack.NewDecoder(0, nil).DecodeFull(b)
	var got strings.Builder
	for _, f := range list {
		got.WriteString(f.Name + "=" + f.Value + ";")
	}
	want := ":status=200;:status=418;content-type=text/plain;content-type=;weir-odd=" + strings.Repeat("x", 300) + ";content-length=12;date=today;x=y;"
	if err != nil || got.String() != want {
		t.Errorf("%v\n%s\n%s", err, got.String(), want)
	}
}
