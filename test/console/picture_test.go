package console

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

// readme are the pictures that the README shows.
var readme = []string{"live", "live-phone", "ledger", "what-if-dark"}

// maxPicture bounds a picture of the README in bytes.
const maxPicture = 150 << 10

// shot takes a picture of the window. UPDATE=1 keeps the README's, SHOTS=DIR all of them.
func (p *tab) shot(name string) {
	p.t.Helper()
	picture := squeezed(p.t, get(p, chromedp.CaptureScreenshot()))
	if len(picture) > maxPicture {
		p.t.Errorf("%s has %d bytes, more than %d", name, len(picture), maxPicture)
	}
	dir := os.Getenv("SHOTS")
	if os.Getenv("UPDATE") == "1" && slices.Contains(readme, name) {
		dir = filepath.Join("..", "..", "docs")
	}
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "console-"+name+".png"), picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// squeezed is the picture in its 256 most frequent colours.
func squeezed(t *testing.T, picture []byte) []byte {
	t.Helper()
	whole, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	area := whole.Bounds()
	count := map[color.RGBA]int{}
	pixels := make([]color.RGBA, 0, area.Dx()*area.Dy())
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			c := color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA)
			pixels = append(pixels, c)
			count[c]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var palette color.Palette
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range colours {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(image.Rect(0, 0, area.Dx(), area.Dy()), palette)
	for i, c := range pixels {
		small.Pix[i] = nearest[c]
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
