// Package webtest checks the colours of pages.
package webtest

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Colours fails t if people with any kind of colour vision do not tell the lines of a chart apart, on a light or on a
// dark page, or do not see one of them. The style sheet has the colours as variables, and those of a dark page in a
// block prefers-color-scheme: dark. charts are the names of the colours that are in one chart.
func Colours(t *testing.T, styleSheet string, charts ...[]string) {
	t.Helper()
	css, err := os.ReadFile(styleSheet)
	if err != nil {
		t.Fatal(err)
	}
	light, dark, _ := strings.Cut(string(css), "prefers-color-scheme: dark")
	dark, _, _ = strings.Cut(dark, "\n* ")
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		colours := variables(text)
		for _, chart := range charts {
			checkChart(t, scheme, colours, chart)
		}
	}
}

func checkChart(t *testing.T, what string, colours map[string]rgb, chart []string) {
	t.Helper()
	const apart, contrast = 12, 3 // ΔE of CIE 1976; WCAG's ratio for graphics
	card := colours["card"]
	for i, x := range chart {
		c, known := colours[x]
		if !known {
			t.Errorf("%s: no colour %s", what, x)
			continue
		}
		if got := c.contrast(card); got < contrast {
			t.Errorf("%s: %s has a contrast of %.1f with the card: want %d", what, x, got, contrast)
		}
		for _, y := range chart[:i] {
			for vision, see := range visions {
				if got := see.of(c).distance(see.of(colours[y])); got < apart {
					t.Errorf("%s: %s and %s are %.1f apart for %s: want %d", what, x, y, got, vision, apart)
				}
			}
		}
	}
}

type rgb [3]float64 // linear light, 0 to 1

func variables(css string) map[string]rgb {
	found := map[string]rgb{}
	for _, m := range regexp.MustCompile(`--([\w-]+): #([0-9a-f]{3,6});`).FindAllStringSubmatch(css, -1) {
		hex := m[2]
		if len(hex) == 3 {
			hex = fmt.Sprintf("%[1]c%[1]c%[2]c%[2]c%[3]c%[3]c", hex[0], hex[1], hex[2])
		}
		var c rgb
		for i := range c {
			v, _ := strconv.ParseUint(hex[2*i:2*i+2], 16, 8) // the expression allows only hexadecimal digits
			if c[i] = float64(v) / 255; c[i] <= 0.04045 {
				c[i] /= 12.92
			} else {
				c[i] = math.Pow((c[i]+0.055)/1.055, 2.4)
			}
		}
		found[m[1]] = c
	}
	return found
}

// A matrix turns linear light into what is seen of it.
type matrix [3][3]float64

// visions are the matrices of Machado, Oliveira and Fernandes 2009, at full severity.
var visions = map[string]matrix{
	"normal vision": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia":  {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func (m matrix) of(c rgb) (seen rgb) {
	for i, row := range m {
		for j, v := range row {
			seen[i] += v * c[j]
		}
		seen[i] = min(max(seen[i], 0), 1)
	}
	return seen
}

func (c rgb) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

func (c rgb) contrast(d rgb) float64 {
	x, y := c.luminance()+0.05, d.luminance()+0.05
	return max(x, y) / min(x, y)
}

// distance is in CIELAB, with the white of sRGB.
func (c rgb) distance(d rgb) float64 {
	x, y := c.lab(), d.lab()
	return math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2])
}

func (c rgb) lab() [3]float64 {
	f := func(v float64) float64 {
		if v > 216.0/24389 {
			return math.Cbrt(v)
		}
		return (24389.0/27*v + 16) / 116
	}
	x := f((0.4124564*c[0] + 0.3575761*c[1] + 0.1804375*c[2]) / 0.95047)
	y := f(c.luminance())
	z := f((0.0193339*c[0] + 0.1191920*c[1] + 0.9503041*c[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}
