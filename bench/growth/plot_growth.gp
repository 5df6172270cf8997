# SPDX-License-Identifier: MIT
# Draws growth by doubling and by equal steps, from the file of growth_bench --steps-csv, packed by
# gzip or not:
#   gnuplot -c bench/growth/plot_growth.gp STEPS.csv PICTURE.svg
if (ARGC != 2) {
  print "name the figures and the picture: gnuplot -c bench/growth/plot_growth.gp STEPS.csv PICTURE.svg"
  exit status 1
}
reader = sprintf("zcat -f '%s'", ARG1)
file = "< ".reader
steps = system(reader." | awk -F'\"' '!n && $2 ~ /^[+]/ && $2 !~ /peer/ { print $2; n = 1 }'")
set terminal svg size 1000,480 noenhanced font "DejaVu Sans,13" background "white"
set output ARG2
set datafile separator comma

# The name in the file, the name in the picture, how it is drawn; the first is below the second.
array method[5] = ["raw calls", "vector exact", "copy", "async copy", "thrust::device_vector"]
array called[5] = ["HIP calls alone", "growable_device_vector", "hipMalloc + copy", \
                   "hipMallocAsync + copy", "thrust::device_vector"]
array color[5] = ["#009e73", "#0072b2", "#d55e00", "#e69f00", "#7f7f7f"]
array width[5] = [5, 2, 2, 2, 2]
of(scenario, i) = (strcol(1) eq scenario && strcol(2) eq method[int(i)])

# gnuplot lays a legend out for one panel; this one is for both.
found = ""
place = 0.03
do for [i=1:5] {
  if (int(system(sprintf("%s | grep -c '\"%s\"' || true", reader, method[i]))) > 0) {
    found = found." ".i
    set arrow i from screen place, 0.04 rto screen 0.025, 0 nohead \
      linewidth width[i] linecolor rgb color[i]
    set label i called[i] at screen place + 0.032, 0.04
    place = place + 0.052 + 0.0072 * strlen(called[i])
  }
}

set multiplot layout 1,2 margins 0.085,0.98,0.22,0.91 spacing 0.11
set logscale xy
set format y "%g"
set grid linecolor "#dddddd"
set border 3
set tics nomirror
set ylabel "milliseconds" offset 1
set key off

set title "Doubling: time of all steps so far"
set xlabel "held after the step"
set format x "%.0b %BB"
set xtics 2097152,8,1e13
plot for [i in found] file using (of("doubling", i) ? column(4) : NaN):(column(8) / 1e3) \
  with linespoints linewidth width[int(i)] pointtype 7 pointsize 0.4 linecolor rgb color[int(i)]

unset arrow
unset label
set title steps." at a time: time of each step"
set xlabel "GiB held after the step"
unset logscale x
set format x "%g"
set xtics nomirror autofreq
plot for [i in found] file using (of(steps, i) ? column(4) / 2**30 : NaN):(column(5) / 1e3) \
  with lines linewidth width[int(i)] linecolor rgb color[int(i)]
