# SPDX-License-Identifier: MIT
# Draws pairs of allocate and deallocate by size and by threads, from the file of pool_bench --csv:
#   gnuplot -c bench/pool/plot_pool.gp FIGURES.csv PICTURE.svg
if (ARGC != 2) {
  print "name the figures and the picture: gnuplot -c bench/pool/plot_pool.gp FIGURES.csv PICTURE.svg"
  exit status 1
}
file = ARG1
set terminal svg size 1100,480 noenhanced font "DejaVu Sans,13" background "white"
set output ARG2
set datafile separator comma

array method[5] = ["vmm_pool_resource", "hipMallocAsync", "mutex and list", \
                   "mutex, list and events", "hipMalloc"]
array color[5] = ["#0072b2", "#e69f00", "#009e73", "#7f7f7f", "#d55e00"]
# The rows of one line, which others stand between: bytes, threads, steps, samples, best, median.
rows(scenario, i) = sprintf("< grep -F '\"%s\",\"%s\",' '%s' | sed 's/.*\"%s\",\"%s\",//'", \
                            scenario, method[int(i)], file, scenario, method[int(i)])

# gnuplot lays a legend out for one panel; this one is for both.
place = 0.03
do for [i=1:5] {
  set arrow i from screen place, 0.04 rto screen 0.025, 0 nohead linewidth 2 \
    linecolor rgb color[i]
  set label i method[i] at screen place + 0.032, 0.04
  place = place + 0.052 + 0.0072 * strlen(method[i])
}
set label 6 "dashed: among holes" at screen place, 0.04

set multiplot layout 1,2 margins 0.085,0.98,0.22,0.91 spacing 0.11
set logscale y
set yrange [10:*]
set format y "%g"
set grid linecolor "#dddddd"
set border 3
set tics nomirror
set ylabel "nanoseconds, median" offset 1
set key off

set title "One thread: a pair of each size"
set xlabel "bytes of the request"
set logscale x
set format x "%.0b %BB"
set xtics 256,16,1e13
plot for [i=1:5] rows("pairs", i) using 1:6 \
  with linespoints linewidth 2 pointtype 7 pointsize 0.4 linecolor rgb color[i], \
  for [i=1:4] rows("pairs among holes", i) using 1:6 \
  with linespoints linewidth 2 dashtype 2 pointtype 7 pointsize 0.4 linecolor rgb color[i]

unset arrow
unset label
set title "Threads, each with a stream of its own: 256 bytes"
set xlabel "threads"
set ylabel "nanoseconds a pair in aggregate, median" offset 1
unset logscale x
set format x "%g"
set xtics nomirror autofreq
scenario = "threads with streams of their own"
plot for [i=1:5] rows(scenario, i) using 2:6 \
  with linespoints linewidth 2 pointtype 7 pointsize 0.4 linecolor rgb color[i]
