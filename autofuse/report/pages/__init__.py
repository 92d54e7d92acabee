"""Pictures and pages: SVG, HTML, traces."""
