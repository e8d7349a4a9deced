// Writes a block with floats as XOR2, start times and native histograms, deletes some of it, and prints what the
// library reads back.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func hex(v float64) string { return fmt.Sprintf("%016x", math.Float64bits(v)) }

func main() {
	dir := os.Args[1]
	opts := tsdb.DefaultOptions()
	opts.FloatChunkEncoding = chunkenc.EncXOR2
	opts.EnableSTStorage = true
	db, err := tsdb.Open(filepath.Join(dir, "data"), nil, nil, opts, nil)
	must(err)
	defer db.Close()
	r := rand.New(rand.NewSource(7))
	began := int64(1772366400000)
	const step, n = 15000, 130
	for s := 0; s < 4; s++ {
		gpu := labels.FromStrings("__name__", "DCGM_FI_DEV_POWER_USAGE", "Hostname", "gpu001", "gpu", fmt.Sprint(s), "UUID", fmt.Sprintf("GPU-0000000%d-1111-2222-3333-444444444444", s))
		hist := labels.FromStrings("__name__", "request_seconds", "instance", "10.20.0.17:9400", "le_kind", fmt.Sprint(s))
		total := labels.FromStrings("__name__", "requests_total", "instance", "10.20.0.17:9400", "code", fmt.Sprint(200+s))
		ctx := context.Background()
		app := db.AppenderV2(ctx)
		h := &histogram.Histogram{Schema: 2, ZeroThreshold: 0.001, PositiveSpans: []histogram.Span{{Offset: -3, Length: 2}, {Offset: 2, Length: 1}}, PositiveBuckets: []int64{3, 1, -2}, NegativeSpans: []histogram.Span{{Offset: 0, Length: 1}}, NegativeBuckets: []int64{2}, ZeroCount: 1, Count: 12, Sum: 1.5}
		st, sum := began-60000, 0.0
		for i := 0; i < n; i++ {
			t := began + int64(i)*step
			if i%3 == 1 {
				t += r.Int63n(9)
			}
			if s == 1 && i == 70 {
				st, sum = t-1000, 0
			}
			sum += float64(r.Intn(40))
			v := math.Round(1000*(400+50*r.NormFloat64())) / 1000
			if s == 3 && i == n-1 {
				v = math.Float64frombits(value.StaleNaN)
			}
			_, err = app.Append(0, gpu, 0, t, v, nil, nil, storage.AOptions{})
			must(err)
			_, err = app.Append(0, total, st, t, sum, nil, nil, storage.AOptions{})
			must(err)
			if i%13 == 0 {
				h = h.Copy()
				h.PositiveBuckets[0]++
				h.PositiveBuckets[1]--
				h.Count++
				h.Sum += r.Float64()
				if s%2 == 0 {
					_, err = app.Append(0, hist, st, t, 0, h, nil, storage.AOptions{})
				} else {
					_, err = app.Append(0, hist, st, t, 0, nil, h.ToFloat(nil), storage.AOptions{})
				}
				must(err)
			}
		}
		must(app.Commit())
	}
	must(db.CompactHead(tsdb.NewRangeHead(db.Head(), began, began+n*step)))
	block := db.Blocks()[0]
	must(block.Delete(context.Background(), began+10*step, began+20*step, labels.MustNewMatcher(labels.MatchEqual, "gpu", "2")))
	q, err := tsdb.NewBlockQuerier(block, math.MinInt64, math.MaxInt64)
	must(err)
	w := json.NewEncoder(os.Stdout)
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	for set.Next() {
		it := set.At().Iterator(nil)
		samples := [][]any{}
		for k := it.Next(); k != chunkenc.ValNone; k = it.Next() {
			if k == chunkenc.ValFloat {
				t, v := it.At()
				samples = append(samples, []any{t, hex(v)})
			} else {
				t, f := it.AtFloatHistogram(nil)
				samples = append(samples, []any{t, hex(f.Count), hex(f.Sum)})
			}
		}
		must(w.Encode(map[string]any{"labels": set.At().Labels().Map(), "samples": samples}))
	}
	must(set.Err())
	q.Close()
}
