// Writes a block, lets parquet-common make Parquet of it, and prints what the library of Prometheus reads in the block.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand"
	"os"
	"time"

	"github.com/prometheus-community/parquet-common/convert"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/thanos-io/objstore/providers/filesystem"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func hex(v float64) string { return fmt.Sprintf("%016x", math.Float64bits(v)) }

func main() {
	dir := os.Args[1]
	log := slog.New(slog.DiscardHandler)
	r := rand.New(rand.NewSource(7))
	began := int64(1772366400000)
	const step, n = 60000, 300 // five hours
	w, err := tsdb.NewBlockWriter(log, dir+"/block", 24*3600*1000)
	must(err)
	app := w.Appender(context.Background())
	for s := 0; s < 4; s++ {
		gpu := labels.FromStrings("__name__", "DCGM_FI_DEV_POWER_USAGE", "Hostname", "gpu001", "gpu", fmt.Sprint(s))
		hist := labels.FromStrings("__name__", "request_seconds", "instance", "10.20.0.17:9400", "le_kind", fmt.Sprint(s))
		h := &histogram.Histogram{Schema: 2, ZeroThreshold: 0.001, PositiveSpans: []histogram.Span{{Offset: -3, Length: 2}, {Offset: 2, Length: 1}}, PositiveBuckets: []int64{3, 1, -2}, ZeroCount: 1, Count: 10, Sum: 1.5}
		for i := 0; i < n; i++ {
			t := began + int64(i)*step
			v := math.Round(10*(400+50*r.NormFloat64())) / 10
			if s == 3 && i == n-1 {
				v = math.Float64frombits(value.StaleNaN)
			}
			if s != 2 || i < 100 || i > 250 { // a gap of a whole column
				_, err = app.Append(0, gpu, t, v)
				must(err)
			}
			if i%30 == 0 {
				h = h.Copy()
				h.PositiveBuckets[0]++
				h.PositiveBuckets[1]--
				h.Count++
				h.Sum += r.Float64()
				if s%2 == 0 {
					_, err = app.AppendHistogram(0, hist, t, h, nil)
				} else {
					_, err = app.AppendHistogram(0, hist, t, nil, h.ToFloat(nil))
				}
				must(err)
			}
		}
	}
	must(app.Commit())
	id, err := w.Flush(context.Background())
	must(err)
	block, err := tsdb.OpenBlock(log, dir+"/block/"+id.String(), nil, nil)
	must(err)
	bucket, err := filesystem.NewBucket(dir + "/parquet")
	must(err)
	day := int64(24 * 3600 * 1000)
	_, err = convert.ConvertTSDBBlock(context.Background(), bucket, began/day*day, began/day*day+day, []convert.Convertible{block}, log, convert.WithColDuration(2*time.Hour), convert.WithName("shard"))
	must(err)
	q, err := tsdb.NewBlockQuerier(block, math.MinInt64, math.MaxInt64)
	must(err)
	out := json.NewEncoder(os.Stdout)
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
		must(out.Encode(map[string]any{"labels": set.At().Labels().Map(), "samples": samples}))
	}
	must(set.Err())
}
