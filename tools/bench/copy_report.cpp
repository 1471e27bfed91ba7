#include "tools/bench/copy_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/support/bytes.hpp"
#include "tools/bench/samples.hpp"

namespace vmem {
namespace {

constexpr double kWidth = 460;
constexpr double kHeight = 240;
constexpr double kLeft = 64;
constexpr double kBottom = 34;
constexpr double kTop = 12;
constexpr int kLines = 5;

using Rows = std::vector<const BenchRow*>;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

// Where sizes and rates lie in the picture: sizes by their logarithm.
class Axes {
 public:
  explicit Axes(const Rows& rows) {
    least_ = std::log2(static_cast<double>(rows.front()->bytes));
    most_ = std::log2(static_cast<double>(rows.back()->bytes));
    for (const BenchRow* row : rows) {
      highest_ = std::max({highest_, row->bytes_per_second(), row->reference_bytes_per_second()});
    }
  }

  double highest() const { return highest_; }
  double x(std::size_t bytes) const {
    return kLeft + (std::log2(static_cast<double>(bytes)) - least_) / (most_ - least_) * (kWidth - kLeft - 10);
  }
  double y(double rate) const { return kHeight - kBottom - rate / highest_ * (kHeight - kBottom - kTop); }

 private:
  double least_ = 0;
  double most_ = 1;
  double highest_ = 1;
};

std::string grid(const Axes& axes, const Rows& rows) {
  std::string svg;
  for (int line = 0; line <= kLines; ++line) {
    const double rate = axes.highest() * line / kLines;
    svg += fmt::format(R"(<line class="grid" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)", kLeft,
                       kWidth - 10, axes.y(rate));
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 6, axes.y(rate) + 4,
                       format_rate(rate));
  }
  for (std::size_t i = 0; i < rows.size(); i += (rows.size() + 5) / 6) {
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", axes.x(rows[i]->bytes),
                       kHeight - 12, format_bytes(rows[i]->bytes));
  }
  return svg;
}

std::string curve(const Axes& axes, const Rows& rows, const char* style,
                  const std::function<double(const BenchRow&)>& rate) {
  std::string points;
  std::string marks;
  for (const BenchRow* row : rows) {
    const double x = axes.x(row->bytes);
    const double y = axes.y(rate(*row));
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    marks += fmt::format(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}: {}</title></circle>)", style, x,
                         y, format_bytes(row->bytes), format_rate(rate(*row)));
  }
  return fmt::format(R"(<polyline class="{}" points="{}"/>)", style, points) + marks;
}

std::string chart(const Rows& rows) {
  const BenchRow& first = *rows.front();
  const Axes axes(rows);
  std::string html = fmt::format("<figure><figcaption>{}: {} to {}{}</figcaption>", escaped(first.pattern),
                                 escaped(first.from), escaped(first.to), first.simulated ? " (simulated)" : "");
  html += fmt::format(R"(<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}">)", kWidth, kHeight);
  html += grid(axes, rows);
  html += curve(axes, rows, "limit", [](const BenchRow& row) { return row.reference_bytes_per_second(); });
  html += curve(axes, rows, "measured", [](const BenchRow& row) { return row.bytes_per_second(); });
  html += fmt::format("</svg><p><b class=\"measured\">vmem</b>, <b class=\"limit\">{}</b></p></figure>\n",
                      escaped(first.reference.name));
  return html;
}

constexpr const char* kStyle = R"(<style>
body { font: 14px system-ui, sans-serif; margin: 24px; color: #222; background: #fff; }
figure { display: inline-block; margin: 0 24px 24px 0; vertical-align: top; }
figcaption { font-weight: 600; }
text { font-size: 11px; fill: #555; }
.grid { stroke: #ddd; }
polyline { fill: none; stroke-width: 2; }
polyline.measured { stroke: #1565c0; } circle.measured { fill: #1565c0; } b.measured { color: #1565c0; }
polyline.limit { stroke: #b26a00; stroke-dasharray: 5 4; } circle.limit { fill: #b26a00; } b.limit { color: #b26a00; }
</style>
)";

}  // namespace

std::string copy_report(const BenchReport& report) {
  std::map<std::tuple<std::string, std::string, std::string>, Rows> charts;
  for (const BenchRow& row : report.rows) charts[{row.from, row.to, row.pattern}].push_back(&row);
  std::string html = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vmem bench copy</title>";
  html += kStyle;
  html += fmt::format("</head><body>\n<h1>Copies</h1>\n<p><code>{}</code></p>\n", escaped(report.command));
  for (auto& [key, rows] : charts) {
    std::sort(rows.begin(), rows.end(), [](const BenchRow* a, const BenchRow* b) { return a->bytes < b->bytes; });
    if (rows.front()->bytes < rows.back()->bytes) html += chart(rows);
  }
  return html + "</body></html>\n";
}

}  // namespace vmem
