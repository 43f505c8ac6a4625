// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// shot takes a screenshot for people to look at.
func (b *tab) shot(name string) {
	b.Helper()
	if *shots == "" {
		return
	}
	data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		b.Fatal(err)
	}
	if data, err = small256(picture); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), data, 0o600); err != nil {
		b.Fatal(err)
	}
}

// small256 encodes with the 256 commonest colours, no two of them alike, which is a third of the size;
// the others become the nearest of these.
func small256(picture image.Image) ([]byte, error) {
	counts := map[color.RGBA]int{}
	bounds := picture.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	common := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	var palette color.Palette
	for _, c := range common {
		if len(palette) < 256 && (len(palette) == 0 || distance(c, palette[palette.Index(c)].(color.RGBA)) > nearEnough) {
			palette = append(palette, c)
		}
	}
	index := map[color.RGBA]uint8{}
	for c := range counts {
		index[c] = uint8(palette.Index(c))
	}
	paletted := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			paletted.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, paletted)
	return b.Bytes(), err
}

// nearEnough is the square of a distance between colours that no one minds.
const nearEnough = 40

func distance(a, b color.RGBA) int {
	square := func(x, y uint8) int { return (int(x) - int(y)) * (int(x) - int(y)) }
	return square(a.R, b.R) + square(a.G, b.G) + square(a.B, b.B)
}

func TestSmall256KeepsCommonColours(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 600, 2))
	for x := range 600 { // 300 colours once, one of them often
		picture.Set(x, 0, color.RGBA{R: uint8(x), G: uint8(x / 2), B: 9, A: 255})
		picture.Set(x, 1, color.RGBA{R: 255, A: 255})
	}
	data, err := small256(picture)
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if r, g, b, _ := got.At(3, 1).RGBA(); r>>8 != 255 || g != 0 || b != 0 {
		t.Errorf("the common colour has become %v", got.At(3, 1))
	}
}
