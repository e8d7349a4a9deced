// Writes chunks of all encodings with their samples as the library itself reads them back, a JSON object a line.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

type out struct {
	Encoding int     `json:"encoding"`
	Title    string  `json:"title"`
	Chunk    string  `json:"chunk"`
	Samples  [][]any `json:"samples"`
}

func hex(v float64) string { return fmt.Sprintf("%016x", math.Float64bits(v)) }

func emit(w *json.Encoder, title string, c chunkenc.Chunk) {
	o := out{Encoding: int(c.Encoding()), Title: title, Chunk: base64.StdEncoding.EncodeToString(c.Bytes()), Samples: [][]any{}}
	it := c.Iterator(nil)
	for {
		switch it.Next() {
		case chunkenc.ValNone:
			if it.Err() != nil {
				panic(it.Err())
			}
			if err := w.Encode(o); err != nil {
				panic(err)
			}
			return
		case chunkenc.ValFloat:
			t, v := it.At()
			o.Samples = append(o.Samples, []any{t, hex(v)})
		default:
			t, h := it.AtFloatHistogram(nil)
			buckets := [][]string{}
			if !value.IsStaleNaN(h.Sum) {
				for _, b := range []histogram.BucketIterator[float64]{h.NegativeReverseBucketIterator(), nil, h.PositiveBucketIterator()} {
					if b == nil {
						if h.ZeroCount != 0 {
							buckets = append(buckets, []string{hex(-h.ZeroThreshold), hex(h.ZeroThreshold), hex(h.ZeroCount)})
						}
						continue
					}
					for b.Next() {
						x := b.At()
						if x.Count != 0 {
							buckets = append(buckets, []string{hex(x.Lower), hex(x.Upper), hex(x.Count)})
						}
					}
				}
			}
			o.Samples = append(o.Samples, []any{t, hex(h.Count), hex(h.Sum), buckets})
		}
	}
}

func times(r *rand.Rand, n, kind int) []int64 {
	t, d := int64(1772366400000)+r.Int63n(1000), int64(15000)
	ts := make([]int64, n)
	for i := range ts {
		ts[i] = t
		switch kind {
		case 0:
		case 1:
			d = 15000 + r.Int63n(21) - 10
		case 2:
			d = 15000 + r.Int63n(20000) - 5000
		case 3:
			if r.Intn(9) == 0 {
				d = 1 + r.Int63n(1<<uint(1+r.Intn(38)))
			} else {
				d = 30000
			}
		}
		t += d
	}
	return ts
}

func floats(r *rand.Rand, n, kind int) []float64 {
	v := float64(r.Intn(1000000))
	vs := make([]float64, n)
	for i := range vs {
		switch kind {
		case 0:
			v += float64(r.Intn(5000))
		case 1:
			v = float64(40 + r.Intn(5))
		case 2:
		case 3:
			v = r.NormFloat64() * math.Pow(10, float64(r.Intn(40)-20))
		case 4:
			switch r.Intn(6) {
			case 0:
				v = math.Float64frombits(value.StaleNaN)
			case 1:
				v = math.NaN()
			case 2:
				v = math.Inf(1 - 2*r.Intn(2))
			case 3:
				v = math.Float64frombits(r.Uint64())
			case 4:
				v = math.Copysign(0, -1)
			default:
				v = 5
			}
		}
		vs[i] = v
	}
	return vs
}

func starts(r *rand.Rand, ts []int64, kind int) []int64 {
	s := make([]int64, len(ts))
	began := ts[0] - 1000
	from := 0
	if len(ts) > 1 {
		from = r.Intn(len(ts))
	}
	for i, t := range ts {
		switch kind {
		case 0:
		case 1:
			s[i] = began
		case 2: // begins to be told in the middle
			if i >= from {
				s[i] = began
			}
		case 3: // restarts
			if r.Intn(10) == 0 {
				began = t - r.Int63n(5000)
			}
			s[i] = began
		case 4: // deltas
			if i > 0 {
				s[i] = ts[i-1]
			} else {
				s[i] = t - 15000
			}
		}
	}
	return s
}

func spans(r *rand.Rand, custom bool) ([]histogram.Span, int) {
	n, total := r.Intn(4), 0
	var sp []histogram.Span
	for i := 0; i < n; i++ {
		off := int32(r.Intn(4))
		if i == 0 && !custom {
			off = int32(r.Intn(20) - 10)
		}
		l := uint32(1 + r.Intn(4))
		if custom && int(off)+total+int(l) > 6 {
			break
		}
		sp = append(sp, histogram.Span{Offset: off, Length: l})
		total += int(l)
		if custom {
			break
		}
	}
	return sp, total
}

func main() {
	seed, _ := strconv.ParseInt(os.Args[1], 10, 64)
	count, _ := strconv.Atoi(os.Args[2])
	most, _ := strconv.Atoi(os.Args[3])
	r := rand.New(rand.NewSource(seed))
	bw := bufio.NewWriter(os.Stdout)
	defer bw.Flush()
	w := json.NewEncoder(bw)
	for k := 0; k < count; k++ {
		n := 1 + r.Intn(most)
		tk, vk, sk := k%4, k%5, k/2%5
		ts := times(r, n, tk)
		vs := floats(r, n, vk)
		ss := starts(r, ts, sk)
		title := fmt.Sprintf("times %d values %d starts %d", tk, vk, sk)
		for _, c := range []chunkenc.Chunk{chunkenc.NewXORChunk(), chunkenc.NewXOR2Chunk()} {
			a, err := c.Appender()
			if err != nil {
				panic(err)
			}
			for i := range ts {
				st := ss[i]
				if c.Encoding() == chunkenc.EncXOR {
					st = 0
				}
				if i > 0 && r.Intn(50) == 0 { // as after a restart: an appender that takes up a chunk
					if a, err = c.Appender(); err != nil {
						panic(err)
					}
				}
				a.Append(st, ts[i], vs[i])
			}
			emit(w, title, c)
		}
		custom := k%5 == 4
		pos, np := spans(r, custom)
		neg, nn := spans(r, custom)
		schema := int32(r.Intn(13) - 4)
		var bounds []float64
		if custom {
			neg, nn = nil, 0
			schema = histogram.CustomBucketsSchema
			b := 0.0
			for i := 0; i < 6; i++ {
				if r.Intn(2) == 0 {
					b += float64(1+r.Intn(9)) / 1000
				} else {
					b += r.Float64() * 10
				}
				bounds = append(bounds, b)
			}
		}
		zt := []float64{0, 1e-128, math.Pow(2, -128), 0.001, 1}[r.Intn(5)]
		if custom {
			zt = 0
		}
		pc, nc, zc := make([]int64, np), make([]int64, nn), uint64(0)
		sum := 0.0
		hs := make([]*histogram.Histogram, n)
		for i := range hs {
			for j := range pc {
				pc[j] += r.Int63n(1 << uint(r.Intn(12)))
			}
			for j := range nc {
				nc[j] += r.Int63n(1 << uint(r.Intn(12)))
			}
			if !custom {
				zc += uint64(r.Intn(3))
			}
			sum += r.Float64()
			h := &histogram.Histogram{Schema: schema, ZeroThreshold: zt, ZeroCount: zc, Sum: sum, PositiveSpans: pos, NegativeSpans: neg, CustomValues: bounds}
			c, last := zc, int64(0)
			for _, x := range pc {
				h.PositiveBuckets = append(h.PositiveBuckets, x-last)
				last = x
				c += uint64(x)
			}
			last = 0
			for _, x := range nc {
				h.NegativeBuckets = append(h.NegativeBuckets, x-last)
				last = x
				c += uint64(x)
			}
			h.Count = c
			if r.Intn(20) == 0 && i > 0 {
				h = &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}
			}
			hs[i] = h
		}
		for _, enc := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST} {
			c, err := chunkenc.NewEmptyChunk(enc)
			if err != nil {
				panic(err)
			}
			a, err := c.Appender()
			if err != nil {
				panic(err)
			}
			for i, h := range hs {
				st := ss[i]
				if enc == chunkenc.EncHistogram || enc == chunkenc.EncFloatHistogram {
					st = 0
				}
				var nc chunkenc.Chunk
				if enc == chunkenc.EncHistogram || enc == chunkenc.EncHistogramST {
					nc, _, a, err = a.AppendHistogram(nil, st, ts[i], h, false)
				} else {
					nc, _, a, err = a.AppendFloatHistogram(nil, st, ts[i], h.ToFloat(nil), false)
				}
				if err != nil {
					panic(err)
				}
				if nc != nil {
					emit(w, title+" cut", c)
					c = nc
				}
			}
			emit(w, title, c)
		}
	}
}
